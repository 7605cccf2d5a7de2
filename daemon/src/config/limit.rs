//! A checked limit.

use topup_wire::limit::{
    Algorithm, Assignment, Capacity, Holds, Lease, LimitName, OnChange, OnOutage, Parts, Penalty, Percent,
    PermitTtl, Plans, Rate, Rollout, Shards, TopKeys, Windows,
};

use super::{candidate::Candidate, plans::PlanConfig};
use crate::calendar::Calendar;

/// The way in which a limit's tokens come.
#[derive(Clone, Debug, PartialEq)]
pub enum SupplyConfig {
    /// Steadily: `rate`.
    Rate(Rate),
    /// All at once, at calendar instants: `refill`.
    Calendar(Calendar),
    /// When takes leave the window that counts them: `limit` and `window`, or `rules`.
    Windows(Windows),
    /// When permits are released, or not renewed for this time: `limit` and `ttl`.
    Permits(PermitTtl),
}

/// An entry of a limit's schedule. It applies from each firing until another entry fires.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleEntry {
    /// The instants at which it fires.
    pub calendar: Calendar,
    /// The rate from then on; `None` for the limit's own.
    pub rate: Option<Rate>,
    /// The capacity from then on; `None` for the limit's own.
    pub capacity: Option<Capacity>,
}

/// A limit of a checked config.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitConfig {
    /// Its name.
    pub name: LimitName,
    /// One bucket per key, or one for all.
    pub keyed: bool,
    /// The algorithm that decides.
    pub algorithm: Algorithm,
    /// The limit's own capacity.
    pub capacity: Capacity,
    /// The limit's own supply of tokens.
    pub supply: SupplyConfig,
    /// Whether an empty bucket is credited at the take that finds it empty.
    pub catch_up: bool,
    /// The fate of tokens in buckets when the terms change.
    pub on_change: OnChange,
    /// The number of hash tags that its buckets are spread over; one when unkeyed.
    pub shards: Shards,
    /// The tokens that a worker may take ahead; `None` without a lease.
    pub lease: Option<Lease>,
    /// The keys for which denials hold.
    pub rollout: Rollout,
    /// The outage policy of workers; `None` leaves it to each worker.
    pub on_outage: Option<OnOutage>,
    /// Other terms that are tried beside its own.
    pub candidate: Option<Candidate>,
    /// The share of keys for which it is compared with lazy buckets.
    pub compared: Percent,
    /// The number of keys that are told as the most denied ones.
    pub top_keys: TopKeys,
    /// Its plans.
    pub plans: Vec<PlanConfig>,
    /// Keys and patterns, and the plans that they are assigned to.
    pub keys: Vec<(String, Assignment)>,
    /// The penalty for keys that are denied again and again.
    pub penalty: Option<Penalty>,
    /// Its debt, and the fate of abandoned holds.
    pub holds: Holds,
    /// Its parts, which borrow from each other.
    pub parts: Parts,
    /// Other terms and when they apply, in the order of the file.
    pub schedule: Vec<ScheduleEntry>,
}

// === impl LimitConfig ===

impl LimitConfig {
    /// The names of its plans, and its assignments.
    pub fn plans(&self) -> Plans {
        Plans::new(self.plans.iter().map(|(name, _)| *name), self.keys.iter().cloned())
    }

    /// Every calendar that changes the limit: those of its schedule, and that of a calendar refill.
    pub fn calendars(&self) -> impl Iterator<Item = &Calendar> {
        let refill = match &self.supply {
            SupplyConfig::Calendar(calendar) => Some(calendar),
            SupplyConfig::Rate(_) | SupplyConfig::Windows(_) | SupplyConfig::Permits(_) => None,
        };
        self.schedule.iter().map(|entry| &entry.calendar).chain(refill)
    }
}
