//! The bucket that judges each part of a limit with fair shares, and all together.

use topup_wire::{bucket::Pace, limit::OnChange};

/// Instants are whole µs. A bucket that stops being full is noted up to 2 µs late, and its tokens fall on the next.
pub(crate) const SLACK: u64 = 5;

/// A bucket in whole numbers that is never late: `level` counts p-ths of a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ideal {
    pub(crate) capacity: u64,
    pub(crate) pace: Pace,
    pub(crate) level: i128,
    at: u64,
}

// === impl Ideal ===

impl Ideal {
    pub(crate) fn full(capacity: u64, pace: Pace, at: u64) -> Self {
        Self { capacity, pace, level: i128::from(capacity) * i128::from(pace.p), at }
    }

    pub(crate) fn credit(&mut self, now: u64) {
        let most = i128::from(self.capacity) * i128::from(self.pace.p);
        self.level = most.min(self.level + i128::from(self.pace.n) * i128::from(now - self.at));
        self.at = now;
    }

    /// The instant up to which it was credited.
    pub(crate) const fn since(&self) -> u64 {
        self.at
    }

    pub(crate) fn take(&mut self, tokens: u64) {
        self.level -= i128::from(tokens) * i128::from(self.pace.p);
    }

    pub(crate) fn put_back(&mut self, tokens: u64) {
        let most = i128::from(self.capacity) * i128::from(self.pace.p);
        self.level = most.min(self.level + i128::from(tokens) * i128::from(self.pace.p));
    }

    /// Tokens that are there even if every instant was noted late.
    pub(crate) fn sure(&self) -> u64 {
        let late = i128::from(self.pace.n) * i128::from(SLACK);
        u64::try_from((self.level - late) / i128::from(self.pace.p)).unwrap_or(0)
    }

    /// µs until it has `tokens`.
    pub(crate) fn time_to(&self, tokens: u64) -> u64 {
        let missing = i128::from(tokens.min(self.capacity)) * i128::from(self.pace.p) - self.level;
        u64::try_from(missing).map_or(0, |missing| missing.div_ceil(self.pace.n))
    }

    pub(crate) fn time_full(&self) -> u64 {
        (self.capacity * self.pace.p).div_ceil(self.pace.n)
    }

    pub(crate) fn per_micro(&self) -> f64 {
        self.pace.n as f64 / self.pace.p as f64
    }

    /// Other terms, of a limit whose capacity is `to` and was `from`. Up to `lost` tokens may be lost by rounding.
    pub(crate) fn change(
        &mut self,
        capacity: u64,
        pace: Pace,
        on_change: OnChange,
        (to, from): (u64, u64),
        lost: u64,
    ) {
        let mut level = self.level * i128::from(pace.p) / i128::from(self.pace.p) + i128::from(lost == 0);
        if on_change == OnChange::Proportional {
            // A part of a token that has come is not scaled.
            level = (level - i128::from(lost) * i128::from(pace.p)).max(0);
            level = level * i128::from(to) / i128::from(from) + i128::from(lost == 0) * i128::from(pace.p);
        }
        (self.capacity, self.pace) = (capacity, pace);
        self.level = level.min(i128::from(capacity) * i128::from(pace.p));
        self.level = (self.level - i128::from(lost) * i128::from(pace.p)).max(0);
        if on_change == OnChange::Reset {
            *self = Self::full(capacity, pace, self.at);
        }
    }
}
