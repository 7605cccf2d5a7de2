//! The terms of a limit: a capacity and a rate, and the limit that promises them.

use std::time::Duration;

use topup_wire::{
    bucket::Pace,
    limit::{Algorithm, Capacity, Lease, Limit, OnChange, Rate, Supply, Terms},
};

/// A capacity and a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Most tokens in a bucket.
    pub capacity: u64,
    /// Tokens in each interval.
    pub tokens: u64,
    /// The interval, in µs.
    pub interval: u64,
}

// === impl Promise ===

impl Promise {
    /// A capacity, and a rate of `tokens` every `interval` µs.
    pub const fn new(capacity: u64, tokens: u64, interval: u64) -> Self {
        Self { capacity, tokens, interval }
    }

    /// µs in which so many tokens come.
    pub fn time_of(self, tokens: u64) -> u64 {
        let micros = u128::from(tokens) * u128::from(self.interval) / u128::from(self.tokens);
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// µs for each token, at least one.
    pub fn each(self) -> u64 {
        self.time_of(1).max(1)
    }

    /// Whether its buckets at rest are kept as numbers.
    pub fn rests_as_number(self) -> bool {
        topup_wire::scripts::rests_as_number(self.capacity, self.pace())
    }

    /// The longest time from a reservation to its tokens, in µs.
    pub(crate) fn longest_delay(self) -> u64 {
        self.pace().longest_delay(self.capacity)
    }

    #[allow(clippy::expect_used, reason = "plans are generated from terms that are right")]
    fn pace(self) -> Pace {
        Rate::new(self.tokens, Duration::from_micros(self.interval)).expect("a rate").pace()
    }

    /// The limit that promises this.
    ///
    /// # Panics
    /// When no limit can.
    #[allow(clippy::expect_used, reason = "plans are generated from terms that are right")]
    pub fn limit(self, lease: Option<(u64, u64)>, on_change: OnChange) -> Limit {
        let rate = Rate::new(self.tokens, Duration::from_micros(self.interval)).expect("a rate");
        let lease = lease.map(|(max, ttl)| Lease::new(max, Duration::from_micros(ttl)).expect("a lease"));
        let capacity = Capacity::new(self.capacity).expect("a capacity");
        let terms = Terms { capacity, supply: Supply::Rate(rate) };
        let plain = Limit::plain("mail".parse().expect("a name"), Algorithm::TokenBucket, terms);
        Limit { on_change, lease, ..plain }
    }
}
