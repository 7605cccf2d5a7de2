//! How many tokens to take ahead: as many as are spent of late.

use crate::clock::Micros;

/// Where fewer are expected while they are good, a bare command each is cheaper.
const FEWEST: u64 = 3;
/// No more than so many times what was spent of late is taken ahead: two takes in quick succession are no sign of a thousand.
const MOST_GROWTH: u64 = 32;
/// Of a bucket that holds so many times as many, at least so many are taken ahead of those who have waited for each so far:
/// how fast they would spend them is not known yet, but it is faster than that.
const FIRST: u64 = 32;
const PLENTY: u64 = 64;

/// What is spent of late of the tokens taken ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Appetite {
    /// When tokens were last asked for.
    asked_at: Micros,
    /// Tokens in hand then, and what has come since.
    in_hand: u64,
    /// Tokens spent until then ...
    spent: u64,
    /// ... a token in so many ns.
    each: u64,
    /// Each of them had to be waited for.
    slow: bool,
}

/// How many tokens a command may take ahead, and for how long they would be good.
#[derive(Clone, Copy, Debug)]
pub(super) enum Prospect {
    /// Of a lease, of a bucket that holds so many.
    Leased { good_for: Micros, max: u64, held: u64 },
    /// For a crowd.
    Crowded { good_for: Micros, max: u64 },
}

// === impl Appetite ===

impl Appetite {
    /// Looks at what has been spent by `now`, when so many are `left` in hand, and so many takers wait for theirs.
    pub(super) fn look(&mut self, now: Micros, left: u64, takers: u64) {
        let apart = now - std::mem::replace(&mut self.asked_at, now).min(now);
        self.slow = self.in_hand == 0;
        self.spent = self.in_hand.saturating_sub(left).saturating_add(takers);
        self.each = (apart.saturating_mul(1_000) / self.spent.max(1)).max(1);
        self.in_hand = left;
    }

    /// How many tokens to take ahead, as many as come while they are good, if takes come on as they did; of a lease some
    /// less, since those that are left then have to go back.
    pub(super) fn next(&self, prospect: Prospect) -> u64 {
        let expected = |time: Micros| if self.spent > 0 { time.saturating_mul(1_000) / self.each } else { 0 };
        let (wish, max) = match prospect {
            Prospect::Leased { good_for, max, held } => match expected(good_for - good_for / 4) {
                0..FEWEST => return 0,
                expected => {
                    let least = if self.slow { FIRST.min(held / PLENTY) } else { 0 };
                    (expected.max(least).min(self.spent.saturating_mul(MOST_GROWTH)), max)
                }
            },
            Prospect::Crowded { good_for, max } => match expected(good_for / 4) {
                0 => return 0,
                expected => (expected.max(self.spent.saturating_mul(4)), max),
            },
        };
        wish.min(max.saturating_sub(self.in_hand))
    }

    /// With how many left of `tokens` to ask for more: a part, or as many as are spent while a command takes this long, and
    /// as long again.
    pub(super) fn low(&self, tokens: u64, took: Micros) -> u64 {
        let meanwhile = took.saturating_mul(2_000) / self.each.max(1);
        meanwhile.clamp(tokens / 8, tokens / 2)
    }

    /// So many have come.
    pub(super) fn come(&mut self, tokens: u64) {
        self.in_hand = self.in_hand.saturating_add(tokens);
    }

    /// So many are gone that were not spent.
    pub(super) fn gone(&mut self, left: u64) {
        self.in_hand = self.in_hand.saturating_sub(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken ahead when this was spent of it, by someone who waits for nothing.
    fn next(appetite: &mut Appetite, now: Micros, spent: u64, prospect: Prospect) -> u64 {
        appetite.look(now, appetite.in_hand - spent, 0);
        let next = appetite.next(prospect);
        appetite.come(next);
        next
    }

    const PROSPECT: Prospect = Prospect::Leased { good_for: 1_000_000, max: 10_000, held: 1_000_000 };

    #[test]
    fn what_is_taken_ahead_follows_what_is_spent() {
        let mut appetite = Appetite::default();
        appetite.come(10);
        assert_eq!(next(&mut appetite, 10_000, 10, PROSPECT), 320, "ten takes are no sign of more");
        assert_eq!(
            next(&mut appetite, 330_000, 320, PROSPECT),
            750,
            "most of what comes while they are good"
        );
        let scarce = Prospect::Leased { good_for: 1_000_000, max: 400, held: 1_000 };
        assert_eq!(next(&mut appetite, 830_000, 740, scarce), 390, "no more than so many in hand");
        appetite.gone(390);
        assert_eq!(next(&mut appetite, 1_830_000, 10, PROSPECT), 7);
        assert_eq!(next(&mut appetite, 2_830_000, 0, PROSPECT), 0, "nothing was spent");
    }

    #[test]
    fn who_has_waited_for_each_token_gets_some_more_of_a_bucket_that_has_plenty() {
        let first = |apart: Micros, prospect| {
            let mut appetite = Appetite::default();
            appetite.look(1_000_000, 0, 1);
            appetite.look(1_000_000 + apart, 0, 1);
            appetite.next(prospect)
        };
        assert_eq!(first(100_000, PROSPECT), FIRST);
        assert_eq!(first(1_000, PROSPECT), MOST_GROWTH, "two takes are no sign of more");
        assert_eq!(first(300_000, PROSPECT), 0, "seldom asked for");
        assert_eq!(first(100_000, Prospect::Leased { good_for: 1_000_000, max: 100, held: 500 }), 7);
    }

    #[test]
    fn more_is_asked_for_in_time() {
        let mut appetite = Appetite::default();
        appetite.come(1_000);
        appetite.look(1_000_000, 0, 0);
        assert_eq!(appetite.low(1_000, 500), 125, "a part");
        assert_eq!(appetite.low(1_000, 150_000), 300, "twice what is spent meanwhile");
        assert_eq!(appetite.low(1_000, 1_000_000), 500, "half of them");
    }
}
