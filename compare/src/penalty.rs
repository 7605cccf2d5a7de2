//! Penalties, with time as an argument: a key that is denied again and again is blocked, each time for longer.

use topup_lab::clock::Micros;
use topup_wire::limit;

/// The terms of a penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// Denied takes that block a key.
    pub after: u64,
    /// The time within which they count, from the first of them on.
    pub within: Micros,
    /// The first block.
    pub block: Micros,
    /// The length of a block in lengths of the one before.
    pub factor: u64,
    /// The longest block.
    pub longest: Micros,
}

/// The denied takes of a key, and its blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks {
    denied: u64,
    since: Micros,
    /// Blocks that are not forgotten.
    blocks: u32,
    until: Micros,
}

// === impl Penalty ===

impl Penalty {
    /// The length of a block after so many others.
    pub fn length(&self, blocks: u32) -> Micros {
        let times = self.factor.checked_pow(blocks);
        times
            .and_then(|times| self.block.checked_mul(times))
            .map_or(self.longest, |block| block.min(self.longest))
    }
}

impl From<limit::Penalty> for Penalty {
    fn from(penalty: limit::Penalty) -> Self {
        let micros = |time: std::time::Duration| time.as_micros() as Micros;
        Self {
            after: penalty.after(),
            within: micros(penalty.within()),
            block: micros(penalty.block()),
            factor: penalty.factor(),
            longest: micros(penalty.longest()),
        }
    }
}

// === impl Blocks ===

impl Blocks {
    /// The end of the block at `at`; `None` without one.
    pub fn end(&self, at: Micros) -> Option<Micros> {
        (at < self.until).then_some(self.until)
    }

    /// Counts a take that the bucket denied at `at`, out of any block. It may begin a block.
    pub fn deny(&mut self, penalty: &Penalty, at: Micros) {
        if self.blocks > 0 && at >= self.until + penalty.length(self.blocks - 1) {
            self.blocks = 0;
        }
        if self.denied == 0 || at - self.since >= penalty.within {
            (self.denied, self.since) = (0, at);
        }
        self.denied += 1;
        if self.denied >= penalty.after {
            (self.denied, self.until) = (0, at + penalty.length(self.blocks));
            self.blocks += 1;
        }
    }
}
