//! Tokens in doubt: the bucket may not miss them, though a worker has taken them.

use super::are_whole_tokens;
use crate::bucket::Pace;

/// Tokens that a worker has taken by native commands, and that the bucket may not miss. A settle takes them off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InDoubt {
    /// Their number.
    pub tokens: u64,
    /// When the bucket that they were taken of is full, in µs of Redis `TIME`. While it is that bucket, it misses them. Takes
    /// move the instant by whole tokens, and one made anew begins at any µs. With 0, they are taken off in any case.
    pub full_at: u64,
}

// === impl InDoubt ===

impl InDoubt {
    /// These tokens and `more`. Those of two buckets are taken off in any case.
    #[must_use]
    pub fn with(self, more: Self, pace: Pace) -> Self {
        if self.tokens == 0 || more.tokens == 0 {
            return if self.tokens == 0 { more } else { self };
        }
        let are_of_one =
            self.full_at.min(more.full_at) > 0 && are_whole_tokens(pace, self.full_at.abs_diff(more.full_at));
        let full_at = if are_of_one { self.full_at } else { 0 };
        Self { tokens: self.tokens.saturating_add(more.tokens), full_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_two_buckets_are_taken_off_in_any_case() {
        let in_doubt = |tokens, full_at| InDoubt { tokens, full_at };
        let first = in_doubt(2, 7_005);
        let with = |more| first.with(more, Pace { n: 1, p: 1_000 });
        assert_eq!(with(in_doubt(3, 9_005)), in_doubt(5, 7_005));
        assert_eq!(with(in_doubt(3, 9_006)), in_doubt(5, 0));
        assert_eq!(with(in_doubt(3, 0)), in_doubt(5, 0));
        assert_eq!(with(in_doubt(0, 9_006)), first, "no tokens are of no bucket");
        assert_eq!(in_doubt(0, 0).with(first, Pace { n: 1, p: 1_000 }), first);
    }
}
