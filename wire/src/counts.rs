//! Counts of the takes of a limit: those of its decisions, always, and trial metrics while it is on trial.

use crate::constants::COUNT_WINDOW;

/// One of the counts of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Count {
    /// Takes that were allowed.
    Allowed,
    /// Takes that were denied.
    Denied,
    /// Takes that went on in shadow after a denial.
    WouldDeny,
    /// Takes without a decision: they ended in an error of Redis, or went on because the limit is not enforced.
    Undecided,
    /// Takes that an outage policy decided, either way.
    Degraded,
    /// Takes that the candidate allowed.
    CandidateAllowed,
    /// Takes that the candidate denied.
    CandidateDenied,
    /// Takes without a decision of the candidate: too many were in flight, or Redis was away.
    CandidateUnasked,
    /// Compared takes that this limit and its lazy bucket both allowed.
    BothAllowed,
    /// Compared takes that this limit alone allowed.
    OnlyOurs,
    /// Compared takes that the lazy bucket alone allowed.
    OnlyLazy,
    /// Compared takes that both denied.
    BothDenied,
    /// Takes that were to be compared, and were not.
    Uncompared,
    /// Sum of the differences between the tokens of the two buckets, after each compared take.
    Difference,
    /// The largest of these differences.
    LargestDifference,
}

/// The value of each [`Count`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Count::ALL.len()]);

/// Takes that were allowed and denied lately: in a window of [`COUNT_WINDOW`] and in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lately {
    /// The number of the window since 1970.
    pub window: u64,
    /// Allowed and denied takes in the window.
    pub in_window: [u64; 2],
    /// The same in the window before.
    pub before: [u64; 2],
}

// === impl Count ===

impl Count {
    /// All counts, those of decisions first.
    pub const ALL: [Self; 15] = [
        Self::Allowed,
        Self::Denied,
        Self::WouldDeny,
        Self::Undecided,
        Self::Degraded,
        Self::CandidateAllowed,
        Self::CandidateDenied,
        Self::CandidateUnasked,
        Self::BothAllowed,
        Self::OnlyOurs,
        Self::OnlyLazy,
        Self::BothDenied,
        Self::Uncompared,
        Self::Difference,
        Self::LargestDifference,
    ];

    /// The counts of decisions, which every limit has. The others are trial metrics.
    pub const DECISIONS: [Self; 5] =
        [Self::Allowed, Self::Denied, Self::WouldDeny, Self::Undecided, Self::Degraded];

    /// Field in Redis and in `topupd status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::WouldDeny => "would_deny",
            Self::Undecided => "undecided",
            Self::Degraded => "degraded",
            Self::CandidateAllowed => "candidate_allowed",
            Self::CandidateDenied => "candidate_denied",
            Self::CandidateUnasked => "candidate_unasked",
            Self::BothAllowed => "both_allowed",
            Self::OnlyOurs => "only_ours",
            Self::OnlyLazy => "only_lazy",
            Self::BothDenied => "both_denied",
            Self::Uncompared => "uncompared",
            Self::Difference => "difference",
            Self::LargestDifference => "largest_difference",
        }
    }

    /// Name in metrics, of a count of decisions.
    pub const fn decision(self) -> &'static str {
        match self {
            Self::WouldDeny => "shadowed",
            other => other.as_str(),
        }
    }
}

// === impl Counts ===

impl Counts {
    /// The value of `count`.
    pub const fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Sets the value of `count`.
    pub const fn set(&mut self, count: Count, to: u64) {
        self.0[count as usize] = to;
    }

    /// Whether all values are 0.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The larger of both values of each count.
    #[must_use]
    pub fn largest(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].max(other.0[i])))
    }

    /// The counts before `more` were added. The largest difference is not known any more.
    #[must_use]
    pub fn without(&self, more: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].saturating_sub(more.0[i])))
    }

    /// The increase since `before`. The largest difference is that of all time, if it has grown.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = Self::default();
        for count in Count::ALL {
            let grown = self.get(count).saturating_sub(before.get(count));
            let largest = count == Count::LargestDifference && grown > 0;
            since.set(count, if largest { self.get(count) } else { grown });
        }
        since
    }
}

// === impl Lately ===

impl Lately {
    /// Allowed and denied takes per second at `now`, in µs of Redis `TIME`, over the last ten seconds. Takes of the window
    /// before count as far as it reaches into these.
    pub fn per_second(&self, now: u64) -> [f64; 2] {
        let passed = (now % COUNT_WINDOW) as f64 / COUNT_WINDOW as f64;
        let (whole, part) = match (now / COUNT_WINDOW).checked_sub(self.window) {
            Some(0) => (self.in_window, self.before),
            Some(1) => ([0; 2], self.in_window),
            _ => ([0; 2], [0; 2]),
        };
        let seconds = COUNT_WINDOW as f64 / 1e6;
        [0, 1].map(|i| (whole[i] as f64 + part[i] as f64 * (1.0 - passed)) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_since_is_the_difference_but_for_the_largest() {
        let (mut before, mut after) = (Counts::default(), Counts::default());
        before.set(Count::Allowed, 3);
        before.set(Count::LargestDifference, 5);
        after.set(Count::Allowed, 10);
        after.set(Count::LargestDifference, 6);
        let since = after.since(&before);
        assert_eq!((since.get(Count::Allowed), since.get(Count::LargestDifference)), (7, 6));
        assert!(after.since(&after).is_empty());
    }

    #[test]
    fn counts_stand_where_they_are_looked_up() {
        for (i, count) in Count::ALL.into_iter().enumerate() {
            assert_eq!(count as usize, i);
        }
    }

    #[test]
    fn takes_of_ten_seconds_make_a_rate_and_older_ones_fade() {
        let lately = Lately { window: 7, in_window: [100, 10], before: [50, 0] };
        let at = |windows: f64| lately.per_second((windows * COUNT_WINDOW as f64) as u64);
        assert_eq!(at(7.0), [15.0, 1.0]);
        assert_eq!(at(7.5), [12.5, 1.0]);
        assert_eq!(at(8.5), [5.0, 0.5]);
        assert_eq!((at(9.0), at(6.0)), ([0.0; 2], [0.0; 2]), "long ago, or of a clock that stepped back");
    }
}
