//! Published limits.

use std::{num::NonZeroU16, time::Duration};

use super::{
    Algorithm, Capacity, Holds, Lease, LimitName, OnOutage, Part, Parts, Penalty, Percent, PermitTtl, Plans,
    Rate, Rollout, Schedule, TopKeys, Windows, words::words,
};
use crate::bucket::Pace;

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

/// The current period of a calendar quota, in µs of Redis `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The instant at which buckets were last filled.
    pub since: u64,
    /// The instant at which they will be filled next.
    pub next: u64,
}

/// The longest time for which a worker of a limit without a lease keeps tokens in hand. It takes such tokens while many
/// tasks ask for one bucket at once.
pub const BURST_TTL: Duration = Duration::from_millis(10);

/// The source of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// Steadily, at a rate.
    Rate(Rate),
    /// All at once, at calendar instants.
    Period(Period),
    /// As taken tokens leave the windows in which they count.
    Windows(Windows),
    /// As permits are released. A holder that does not renew its permits loses them after this time.
    Permits(PermitTtl),
}

/// The number of shards of a limit, 1 to 1024. Each has a hash tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(NonZeroU16);

/// A number of shards outside 1 to 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit has 1 to 1024 shards, not {0}")]
pub struct ShardsError(pub u64);

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
}

// === impl Shards ===

impl Shards {
    /// One shard: the whole limit is on one node.
    pub const ONE: Self = Self(NonZeroU16::MIN);

    /// `count` shards.
    ///
    /// # Errors
    /// When `count` is outside 1 to 1024.
    pub fn new(count: u64) -> Result<Self, ShardsError> {
        let checked = u16::try_from(count).ok().filter(|n| *n <= 1024).and_then(NonZeroU16::new);
        checked.map(Self).ok_or(ShardsError(count))
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

// === impl Limit ===

impl Limit {
    /// The longest time for which a worker has tokens in hand, by a clock that runs slow. A put-back into a bucket that
    /// other workers take from waits for that time.
    pub fn in_hand_for(&self) -> Duration {
        let ttl = self.lease.map_or(BURST_TTL, Lease::ttl);
        ttl + ttl / 63 + Duration::from_millis(1)
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

// === impl Supply ===

impl Supply {
    /// The rate in lowest terms. `(0, 1)` for a calendar quota, which gets no tokens between its instants, and for
    /// windows and permits, whose tokens come as they were taken.
    pub const fn lowest_terms(self) -> (u64, u64) {
        let Pace { n, p } = self.pace();
        (n, p)
    }

    /// The same as a [`Pace`].
    pub const fn pace(self) -> Pace {
        match self {
            Self::Rate(rate) => rate.pace(),
            Self::Period(_) | Self::Windows(_) | Self::Permits(_) => Pace { n: 0, p: 1 },
        }
    }
}
