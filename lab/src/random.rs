//! Random numbers that a seed replays.

/// A generator, the same for the same seed. Fast enough not to be part of what is measured.
#[derive(Clone, Debug)]
pub struct Random(u64);

// === impl Random ===

impl Random {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds are far apart after this, and none is 0: splitmix64.
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((state ^ (state >> 31)) | 1)
    }

    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.step() % limit as u64) as usize
    }

    /// A part of one: above 0, at most 1.
    pub fn part(&mut self) -> f64 {
        ((self.step() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn step(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
