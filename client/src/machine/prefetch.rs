//! The size of a prefetch, by the tokens spent lately. One mechanism, two policies.
//!
//! *Burst*: when many tasks take from one bucket at once, a command brings more tokens than they ask for. These are kept
//! for some ms. *Lease*: the limit's config allows prefetched tokens, and says for how long.

use super::{LeaseTerms, Micros};

/// Takes that wait at once and make a burst.
pub(super) const BURST: usize = 32;
/// Longest time from prefetch to use of a burst's token, in µs. A put-back by another worker waits for that.
pub(super) const BURST_TTL: Micros = topup_wire::limit::BURST_TTL.as_micros() as Micros;
/// Most prefetched tokens of a burst: more than are spent in 1 ms are of no use.
const BURST_MAX: u64 = 4_096;
/// A burst prefetches at most the bucket's tokens divided by this, so that other workers find enough.
const BURST_PART: u64 = 64;
/// The tokens of a burst must be good for this long, in µs.
const BURST_LEAST: Micros = 1_000;
/// A lease takes at most the bucket's tokens divided by this. All of them would leave other workers none, and what is left
/// over of them is often lost.
const LEASE_PART: u64 = 8;
/// If fewer tokens than this are expected to be spent, a bare command for each is cheaper.
const FEWEST: u64 = 3;
/// A prefetch is at most this multiple of the tokens spent lately: two quick takes are no sign of a thousand.
const MOST_GROWTH: u64 = 32;
/// Least size of a lease after takes that waited for each token, if the bucket holds [`PLENTY`] times as many.
const FIRST: u64 = 32;
const PLENTY: u64 = 64;

/// The recent use of prefetched tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prefetch {
    /// The last prefetch.
    asked_at: Micros,
    /// Prefetched tokens then, and those that have come since.
    prefetched: u64,
    /// Tokens spent before the last prefetch, since the one before it.
    spent: u64,
    /// ns from one spent token to the next.
    each: u64,
    /// The takes had to wait for each token.
    waited: bool,
    /// The last waiters were a burst.
    burst: bool,
}

/// The bounds of one prefetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// Time for which the tokens would be good, in µs.
    pub(super) good_for: Micros,
    /// Most prefetched tokens.
    pub(super) max: u64,
    /// Tokens in the bucket; `None` for a burst.
    pub(super) leased_of: Option<u64>,
}

// === impl Allowance ===

impl Allowance {
    /// The bounds of a burst. The bucket holds `tokens`, and is below full for another `below_full_for`.
    pub(super) fn of_burst(tokens: u64, below_full_for: Micros) -> Option<Self> {
        let max = (tokens / BURST_PART).min(BURST_MAX);
        let good_for = below_full_for.min(BURST_TTL);
        (max > 0 && good_for >= BURST_LEAST).then_some(Self { good_for, max, leased_of: None })
    }

    /// The bounds of a lease. The bucket holds `tokens`, and is below full for another `below_full_for`.
    pub(super) fn of_lease(lease: LeaseTerms, tokens: u64, below_full_for: Micros) -> Self {
        let good_for = below_full_for.min(lease.ttl);
        Self { good_for, max: lease.max.min(tokens / LEASE_PART), leased_of: Some(tokens) }
    }
}

// === impl Prefetch ===

impl Prefetch {
    /// Records the use by `now`, with `left` prefetched tokens, while `waiters` wait for `demand` tokens.
    pub(super) fn look(&mut self, now: Micros, left: u64, waiters: usize, demand: u64) {
        let apart = now - std::mem::replace(&mut self.asked_at, now).min(now);
        self.waited = self.prefetched == 0;
        if waiters > 0 {
            self.burst = waiters >= BURST;
        }
        self.spent = self.spent_since(left).saturating_add(demand);
        self.each = (apart.saturating_mul(1_000) / self.spent.max(1)).max(1);
        self.prefetched = left;
    }

    /// Whether the last waiters were a burst.
    pub(super) const fn is_burst(&self) -> bool {
        self.burst
    }

    /// Tokens to prefetch: as many as are spent while they are good, if takes go on as before.
    pub(super) fn size(&self, allowance: Allowance) -> u64 {
        let Allowance { good_for, max, leased_of } = allowance;
        let expected = |time: Micros| if self.spent > 0 { time.saturating_mul(1_000) / self.each } else { 0 };
        let size = match leased_of {
            // A quarter less, since tokens that are left over have to go back.
            Some(tokens) => match expected(good_for - good_for / 4) {
                0..FEWEST => return 0,
                expected => {
                    let least = if self.waited { FIRST.min(tokens / PLENTY) } else { 0 };
                    expected.max(least).min(self.spent.saturating_mul(MOST_GROWTH))
                }
            },
            None => match expected(good_for / 8) {
                0 => return 0,
                expected => expected.max(self.spent.saturating_mul(4)),
            },
        };
        size.min(max.saturating_sub(self.prefetched))
    }

    /// The rest of `tokens` at which to prefetch more: an eighth, or the tokens spent in twice the time of a command.
    pub(super) fn low(&self, tokens: u64, command_took: Micros) -> u64 {
        let meanwhile = command_took.saturating_mul(2_000) / self.each.max(1);
        meanwhile.clamp(tokens / 8, (tokens / 2).max(tokens / 8))
    }

    /// Tokens spent since the last prefetch, if `left` are left.
    pub(super) const fn spent_since(&self, left: u64) -> u64 {
        self.prefetched.saturating_sub(left)
    }

    /// Records tokens that have come.
    pub(super) fn come(&mut self, tokens: u64) {
        self.prefetched = self.prefetched.saturating_add(tokens);
    }

    /// Records tokens that have gone unspent.
    pub(super) fn gone(&mut self, tokens: u64) {
        self.prefetched = self.prefetched.saturating_sub(tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size after `spent` tokens were spent by waiters that waited for none.
    fn size(prefetch: &mut Prefetch, now: Micros, spent: u64, allowance: Allowance) -> u64 {
        prefetch.look(now, prefetch.prefetched - spent, 0, 0);
        let size = prefetch.size(allowance);
        prefetch.come(size);
        size
    }

    const PLENTIFUL: Allowance = Allowance { good_for: 1_000_000, max: 10_000, leased_of: Some(1_000_000) };

    #[test]
    fn a_lease_follows_what_is_spent() {
        let mut prefetch = Prefetch::default();
        prefetch.come(10);
        assert_eq!(size(&mut prefetch, 10_000, 10, PLENTIFUL), 320, "ten takes are no sign of more");
        assert_eq!(
            size(&mut prefetch, 330_000, 320, PLENTIFUL),
            750,
            "most of what comes while they are good"
        );
        let scarce = Allowance { good_for: 1_000_000, max: 400, leased_of: Some(1_000) };
        assert_eq!(size(&mut prefetch, 830_000, 740, scarce), 390, "no more than so many in hand");
        prefetch.gone(390);
        assert_eq!(size(&mut prefetch, 1_830_000, 10, PLENTIFUL), 7);
        assert_eq!(size(&mut prefetch, 2_830_000, 0, PLENTIFUL), 0, "nothing was spent");
    }

    #[test]
    fn waiters_that_waited_for_each_token_get_more_of_a_plentiful_bucket() {
        let first = |apart: Micros, allowance| {
            let mut prefetch = Prefetch::default();
            prefetch.look(1_000_000, 0, 1, 1);
            prefetch.look(1_000_000 + apart, 0, 1, 1);
            prefetch.size(allowance)
        };
        assert_eq!(first(100_000, PLENTIFUL), FIRST);
        assert_eq!(first(1_000, PLENTIFUL), MOST_GROWTH, "two takes are no sign of more");
        assert_eq!(first(300_000, PLENTIFUL), 0, "seldom asked for");
        let scarce = Allowance { good_for: 1_000_000, max: 100, leased_of: Some(500) };
        assert_eq!(first(100_000, scarce), 7);
    }

    #[test]
    fn more_is_asked_for_in_time() {
        let mut prefetch = Prefetch::default();
        prefetch.come(1_000);
        prefetch.look(1_000_000, 0, 0, 0);
        assert_eq!(prefetch.low(1_000, 500), 125, "a part");
        assert_eq!(prefetch.low(1_000, 150_000), 300, "twice what is spent meanwhile");
        assert_eq!(prefetch.low(1_000, 1_000_000), 500, "half of them");
    }

    #[test]
    fn a_burst_takes_a_small_part_of_a_bucket_that_is_below_full_for_a_while() {
        assert!(Allowance::of_burst(63, 1_000_000).is_none());
        assert!(Allowance::of_burst(1_000, 500).is_none());
        assert_eq!(Allowance::of_burst(1_000, 1_000_000).map(|allowance| allowance.max), Some(15));
    }
}
