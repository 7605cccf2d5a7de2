//! Trial metrics: counts of a limit under trial.

/// One of the trial metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Count {
    /// Takes that were allowed.
    Allowed,
    /// Takes that were denied.
    Denied,
    /// Takes that went on in shadow after a denial.
    WouldDeny,
    /// Takes that went on because Redis gave no decision.
    Undecided,
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

// === impl Count ===

impl Count {
    /// All trial metrics.
    pub const ALL: [Self; 14] = [
        Self::Allowed,
        Self::Denied,
        Self::WouldDeny,
        Self::Undecided,
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

    /// Field in Redis and in `topupd status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::WouldDeny => "would_deny",
            Self::Undecided => "undecided",
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
}
