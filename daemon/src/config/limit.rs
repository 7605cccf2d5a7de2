//! A limit as checked.

use topup_wire::limit::{
    Algorithm, Capacity, Lease, LimitName, OnChange, Percent, Rate, Rollout, Shards, Windows,
};

use super::Candidate;
use crate::calendar::Calendar;

/// Where the tokens of a limit come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Steadily: `rate`.
    Rate(Rate),
    /// All at once, at calendar instants: `refill`.
    Calendar(Calendar),
    /// As what was taken leaves the windows it counts in: `limit` and `window`, or `rules`.
    Windows(Windows),
}

/// An entry of a limit's schedule: what applies from each firing on, until another entry fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When it fires.
    pub calendar: Calendar,
    /// The rate from then on; `None` for the limit's own.
    pub rate: Option<Rate>,
    /// The capacity from then on; `None` for the limit's own.
    pub capacity: Option<Capacity>,
}

/// A limit of a checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitConfig {
    /// Its name.
    pub name: LimitName,
    /// One bucket per key, or one for all.
    pub keyed: bool,
    /// How it decides.
    pub algorithm: Algorithm,
    /// The limit's own capacity.
    pub capacity: Capacity,
    /// The limit's own supply of tokens.
    pub source: Source,
    /// Whether an empty bucket is credited at the take that finds it empty.
    pub catch_up: bool,
    /// What becomes of tokens when the terms change.
    pub on_change: OnChange,
    /// How many hash tags its buckets are spread over; one when unkeyed.
    pub shards: Shards,
    /// What a worker may take ahead, if anything.
    pub lease: Option<Lease>,
    /// For whom it is in force.
    pub rollout: Rollout,
    /// Other terms to be tried beside its own.
    pub candidate: Option<Candidate>,
    /// The keys for which it is compared with lazy buckets.
    pub compared: Percent,
    /// What else applies and when, in the order of the file.
    pub schedule: Vec<Entry>,
}
