//! Published limits.

use std::time::Duration;

use super::{
    Algorithm, Capacity, Holds, Lease, LimitName, OnOutage, Part, Parts, Penalty, Percent, Plans, Rollout,
    Schedule, Shards, Supply, TopKeys, words::words,
};
use crate::constants::RESERVED_FOR;

/// The effect of a change of capacity on the tokens in a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnChange {
    /// Tokens stay, clamped to a lower capacity.
    #[default]
    Keep,
    /// A bucket stays as full as it was: tokens are scaled by new over old capacity, rounded down.
    Proportional,
    /// Every bucket is full at the new capacity.
    Reset,
}

words!(OnChange: Keep = "keep", Proportional = "proportional", Reset = "reset");

/// The longest time for which a worker of a limit without a lease keeps tokens in hand. It takes such tokens while many
/// tasks ask for one bucket at once.
pub const BURST_TTL: Duration = Duration::from_millis(10);

/// The longest time for which a worker has tokens in hand, by a clock that runs slow. `leased_for` is the `ttl` of the lease, if
/// the limit has one.
pub fn in_hand_for(leased_for: Option<Duration>) -> Duration {
    let ttl = leased_for.unwrap_or(BURST_TTL);
    ttl + ttl / 63 + Duration::from_millis(1)
}

/// Capacity and supply: the part of a limit whose changes migrate buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most tokens in a bucket.
    pub capacity: Capacity,
    /// The source of its tokens.
    pub supply: Supply,
}

/// A limit as the daemon publishes it and workers read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its name.
    pub name: LimitName,
    /// Whether each key has a bucket of its own.
    pub keyed: bool,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Capacity and supply.
    pub terms: Terms,
    /// Whether a settle credits the tokens owed.
    pub catch_up: bool,
    /// The effect of a change of terms on tokens.
    pub on_change: OnChange,
    /// The refill period.
    pub tick: Duration,
    /// The number of shards.
    pub shards: Shards,
    /// The tokens that a worker may take ahead, if any.
    pub lease: Option<Lease>,
    /// The keys for which it is enforced.
    pub rollout: Rollout,
    /// The outage policy of workers; `None` leaves it to each worker.
    pub on_outage: Option<OnOutage>,
    /// Whether a candidate is tried beside it, as [`LimitName::candidate`].
    pub candidate: bool,
    /// The keys for which it is compared with lazy buckets, as [`LimitName::lazy`]. For an unkeyed limit, any share
    /// above 0 means its one bucket.
    pub compared: Percent,
    /// The next changes of its schedule. Empty where only a daemon makes them: of calendar quotas, windows, and token
    /// buckets without catch-up.
    pub schedule: Schedule,
    /// The number of keys that are told as the most denied ones.
    pub top_keys: TopKeys,
    /// Its plans, each published as [`LimitName::plan`], and the keys that its config assigns to them.
    pub plans: Plans,
    /// The longest of the [fill times](Self::fill_time) of it and its plans, in µs: earlier changes do not matter any more.
    /// 0 without plans.
    pub plans_fill: u64,
    /// The penalty for keys that are denied again and again.
    pub penalty: Option<Penalty>,
    /// Its debt, and its abandoned holds.
    pub holds: Holds,
    /// Its parts, under fair shares.
    pub parts: Parts,
}

// === impl Limit ===

impl Limit {
    /// A keyed limit of one shard that is enforced for all keys, and has nothing that a config need not name.
    pub fn plain(name: LimitName, algorithm: Algorithm, terms: Terms) -> Self {
        Self {
            name,
            keyed: true,
            algorithm,
            terms,
            catch_up: true,
            on_change: OnChange::Keep,
            tick: Duration::from_millis(100),
            shards: Shards::ONE,
            lease: None,
            rollout: Rollout::default(),
            on_outage: None,
            candidate: false,
            compared: Percent::NONE,
            schedule: Schedule::NONE,
            top_keys: TopKeys::NONE,
            penalty: None,
            plans: Plans::default(),
            plans_fill: 0,
            holds: Holds::default(),
            parts: Parts::default(),
        }
    }

    /// The longest time for which a worker has tokens in hand, by a clock that runs slow. A put-back into a bucket that
    /// other workers take from waits for that time.
    pub fn in_hand_for(&self) -> Duration {
        in_hand_for(self.lease.map(Lease::ttl))
    }

    /// Whether a waiter may reserve tokens that others would take before it.
    pub fn reserves(&self) -> bool {
        let has_rate = matches!(self.terms.supply, Supply::Rate(_));
        matches!(self.algorithm, Algorithm::TokenBucket | Algorithm::Gcra) && has_rate && self.catch_up
    }

    /// The longest time for which a put-back waits: until others have used their tokens in hand, and reserved ones.
    pub fn puts_in_within(&self) -> Duration {
        let reserved_for = match self.terms.supply {
            Supply::Rate(rate) if self.reserves() => {
                rate.pace().longest_delay(self.terms.capacity.get()) + RESERVED_FOR
            }
            _ => 0,
        };
        self.in_hand_for() + Duration::from_micros(reserved_for)
    }

    /// µs in which a bucket of these terms is full from the deepest debt on, whenever that begins.
    pub fn fill_time(&self) -> u64 {
        match self.terms.supply {
            Supply::Rate(rate) => {
                rate.pace().instant(0, self.terms.capacity.get().saturating_add(self.holds.max_debt()))
            }
            Supply::Period(period) => period.next.saturating_sub(period.since),
            Supply::Permits(_) => 0,
            Supply::Windows(windows) => windows.rules().iter().map(|rule| rule.micros()).max().unwrap_or(0),
        }
    }

    /// The part of `key` under the present terms; `None` for a limit without parts.
    pub fn part_of(&self, key: &str) -> Option<Part> {
        let name = self.parts.of(key)?;
        let parts = self.parts.under(self.terms.capacity, self.terms.supply.pace()).ok()?;
        parts.into_iter().find(|part| part.name == name)
    }

    /// Whether trial metrics are counted: the limit is not enforced for all, or has a trial beside it.
    pub fn has_trial(&self) -> bool {
        !self.rollout.is_whole() || self.candidate || self.compared > Percent::NONE
    }

    /// Whether takes of `key` are compared; `None` for the one bucket of an unkeyed limit.
    pub fn is_compared(&self, key: Option<&str>) -> bool {
        key.map_or(self.compared > Percent::NONE, |key| self.compared.has(key))
    }
}
