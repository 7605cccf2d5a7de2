//! Random numbers of one seed.

use std::ops::RangeInclusive;

/// A stream of random numbers that depends on its seed only.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

// === impl Dice ===

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Self(seed ^ 0x746f_7075_7073_696d);
        dice.next();
        dice
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An independent stream: numbers of one change nothing in the other.
    pub(crate) fn branch(&mut self) -> Self {
        Self::new(self.next())
    }

    /// A number in `range`, each as likely.
    pub(crate) fn of(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (from, to) = range.into_inner();
        from + self.next() % (to - from + 1)
    }

    /// An index below `len`.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.of(0..=len as u64 - 1) as usize
    }

    /// True in `many` of `of` cases.
    pub(crate) fn chance(&mut self, many: u64, of: u64) -> bool {
        self.next() % of < many
    }

    /// One of `these`.
    pub(crate) fn pick<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.index(these.len())]
    }

    /// The time to the next of events that come every `mean` µs on average, at random.
    pub(crate) fn gap(&mut self, mean: u64) -> u64 {
        // -ln of a fraction in whole numbers, the same on every machine: halvings · ln 2, and the rest nearly straight.
        let fraction = (self.next() >> 32) | 1;
        let halvings = u64::from(fraction.leading_zeros()) - 32;
        let rest = (1 << 32) - (fraction << halvings);
        let ln = halvings * 693 + ((rest * 693) >> 31);
        (mean.saturating_mul(ln) / 1_000).max(1)
    }
}
