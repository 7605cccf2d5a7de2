//! A worker's knowledge of Redis `TIME`.

use super::Micros;

/// The two clocks may drift apart by one part in this many.
const DRIFT: u64 = 1_024;

/// Bounds of the µs by which Redis `TIME` is ahead of the worker's clock, from control polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisTime {
    least: u64,
    most: u64,
    /// When the last poll was answered, by the worker's clock.
    heard_at: Micros,
}

// === impl RedisTime ===

impl Default for RedisTime {
    fn default() -> Self {
        Self { least: 0, most: u64::MAX, heard_at: 0 }
    }
}

impl From<[u64; 3]> for RedisTime {
    fn from([least, most, heard_at]: [u64; 3]) -> Self {
        Self { least, most, heard_at }
    }
}

impl RedisTime {
    /// The two bounds in µs, and when the last poll was answered: what [`From`] is given.
    pub const fn parts(self) -> [u64; 3] {
        [self.least, self.most, self.heard_at]
    }

    /// The bounds after a poll whose reply `time` was read between `sent` and `received` of the worker's clock.
    #[must_use]
    pub fn heard(self, time: u64, sent: Micros, received: Micros) -> Self {
        // The worker's clock may have stepped back.
        let received = received.max(sent);
        let (least, most) = (time.saturating_sub(received), time.saturating_sub(sent));
        let drift = self.drift_until(received);
        let still = (least.max(self.least.saturating_sub(drift)), most.min(self.most.saturating_add(drift)));
        // After a step of a clock, the bounds from before are wrong.
        let (least, most) = if still.0 <= still.1 { still } else { (least, most) };
        Self { least, most, heard_at: received }
    }

    /// Whether there is any knowledge. A server that cannot keep buckets at rest as numbers gives none.
    pub(super) const fn is_known(self) -> bool {
        self.most < u64::MAX
    }

    /// µs by which the two clocks may drift apart from the last poll to the instant `local`.
    pub(super) const fn drift_until(self, local: Micros) -> Micros {
        drift_of(local.saturating_sub(self.heard_at))
    }

    /// Earliest Redis `TIME` at the instant `local`.
    pub const fn earliest(self, local: Micros) -> u64 {
        local.saturating_add(self.least)
    }

    /// Latest Redis `TIME` at the instant `local`.
    pub const fn latest(self, local: Micros) -> u64 {
        local.saturating_add(self.most)
    }

    /// Latest reading of the worker's clock at the instant `time` of Redis.
    pub const fn local(self, time: u64) -> Micros {
        time.saturating_sub(self.least)
    }

    /// Earliest reading of the worker's clock at the instant `time` of Redis.
    pub const fn earliest_local(self, time: u64) -> Micros {
        time.saturating_sub(self.most)
    }

    /// µs between the bounds.
    pub(super) const fn width(self) -> u64 {
        self.most - self.least
    }
}

/// µs by which the two clocks may drift apart in `duration`.
pub(super) const fn drift_of(duration: Micros) -> Micros {
    duration / DRIFT + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn bounds(time: RedisTime) -> (u64, u64) {
        (time.least, time.most)
    }

    #[test]
    fn a_quick_poll_says_more_than_a_slow_one() {
        let time = RedisTime::default().heard(1_000_000, 100, 300);
        assert_eq!(bounds(time), (999_700, 999_900));
        let slow = time.heard(1_010_000, 9_000, 10_200);
        assert_eq!(
            bounds(slow),
            (999_800, 999_910),
            "a little wider, for the drift, and not as wide as the poll"
        );
        let stepped = time.heard(2_000_000, 20_000, 20_100);
        assert_eq!(bounds(stepped), (1_979_900, 1_980_000), "the clock was stepped");
        assert_eq!((stepped.earliest(5), stepped.latest(5), stepped.width()), (1_979_905, 1_980_005, 100));
        let back = stepped.heard(2_001_000, 21_000, 20_500);
        assert_eq!((bounds(back), back.width()), ((1_980_000, 1_980_000), 0), "the worker's clock, back");
    }
}
