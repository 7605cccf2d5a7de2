//! What a worker knows of the time of Redis.

use super::Micros;

/// A clock may drift by one part in so many.
const DRIFT: u64 = 1_024;

/// By how much Redis `TIME` is ahead of the worker's clock, in µs: bounds that control polls tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisTime {
    least: u64,
    most: u64,
    /// When the last poll was answered.
    heard_at: Micros,
}

// === impl RedisTime ===

impl Default for RedisTime {
    fn default() -> Self {
        Self { least: 0, most: u64::MAX, heard_at: 0 }
    }
}

impl RedisTime {
    /// What is known from these bounds.
    pub const fn of(least: u64, most: u64) -> Self {
        Self { least, most, heard_at: 0 }
    }

    /// Takes note of `time`, which Redis read between `sent` and `received` of the worker's clock.
    #[must_use]
    pub fn heard(self, time: u64, sent: Micros, received: Micros) -> Self {
        let (least, most) = (time.saturating_sub(received), time.saturating_sub(sent));
        let drift = received.saturating_sub(self.heard_at) / DRIFT + 1;
        let still = (least.max(self.least.saturating_sub(drift)), most.min(self.most.saturating_add(drift)));
        // A clock that was stepped agrees with nothing heard before.
        let (least, most) = if still.0 <= still.1 { still } else { (least, most) };
        Self { least, most, heard_at: received }
    }

    /// Bounds of the offset, in µs.
    pub const fn bounds(self) -> (u64, u64) {
        (self.least, self.most)
    }

    /// Redis `TIME` at `local`, at the earliest.
    pub(super) const fn earliest(self, local: Micros) -> u64 {
        local.saturating_add(self.least)
    }

    /// Redis `TIME` at `local`, at the latest.
    pub(super) const fn latest(self, local: Micros) -> u64 {
        local.saturating_add(self.most)
    }

    /// The worker's clock at the instant `time` of Redis, at the latest.
    pub(super) const fn local(self, time: u64) -> Micros {
        time.saturating_sub(self.least)
    }

    /// µs between the bounds.
    pub(super) const fn width(self) -> u64 {
        self.most - self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_poll_says_more_than_a_slow_one() {
        let time = RedisTime::default().heard(1_000_000, 100, 300);
        assert_eq!(time.bounds(), (999_700, 999_900));
        let slow = time.heard(1_010_000, 9_000, 10_200);
        assert_eq!(
            slow.bounds(),
            (999_800, 999_910),
            "a little wider, for the drift, and not as wide as the poll"
        );
        let stepped = time.heard(2_000_000, 20_000, 20_100);
        assert_eq!(stepped.bounds(), (1_979_900, 1_980_000), "the clock was stepped");
        assert_eq!((stepped.earliest(5), stepped.latest(5), stepped.width()), (1_979_905, 1_980_005, 100));
    }
}
