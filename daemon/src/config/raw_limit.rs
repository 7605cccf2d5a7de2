//! The raw limit: the keys of one `[limit.name]` table, each parsed by itself.

use std::time::Duration;

use topup_wire::limit::{
    Algorithm, Assignment, Capacity, Holds, HoldsError, Lease, Mode, OnAbandon, OnChange, OnOutage, Parts,
    Penalty, Percent, Rate, Shards, TopKeys, Windows,
};

use super::{
    candidate::{self, Candidate, OwnTerms},
    keys,
    limit::ScheduleEntry,
    parts,
    permits::{self, PermitTerms},
    plans::{self, PlanConfig},
    raw_table::{Located, RawTable},
    source::{self, SourceConfig},
    times,
    variables::Variables,
    windows,
};
use crate::calendar::{Calendar, Expression, Zone};

/// The keys of a limit. `None` stands for an absent key, and for a wrong value that is reported.
#[derive(Debug, Default)]
pub(super) struct RawLimit {
    pub(super) keyed: Option<Located<bool>>,
    pub(super) algorithm: Option<Located<Algorithm>>,
    pub(super) capacity: Option<Located<Capacity>>,
    pub(super) rate: Option<Located<Rate>>,
    pub(super) refill: Option<Calendar>,
    pub(super) windows: Option<Located<Windows>>,
    pub(super) permits: Option<Located<PermitTerms>>,
    pub(super) catch_up: Option<Located<bool>>,
    pub(super) on_change: Option<Located<OnChange>>,
    pub(super) shards: Option<Located<Shards>>,
    pub(super) lease: Option<Located<Lease>>,
    pub(super) mode: Option<Located<Mode>>,
    pub(super) enforce_percent: Option<Located<Percent>>,
    pub(super) on_outage: Option<Located<OnOutage>>,
    pub(super) compare_percent: Option<Located<Percent>>,
    pub(super) top_keys: Option<Located<TopKeys>>,
    pub(super) hash_top_keys: Option<Located<bool>>,
    pub(super) penalty: Option<Located<Penalty>>,
    pub(super) max_debt: Option<Located<u64>>,
    pub(super) on_abandon: Option<Located<OnAbandon>>,
    pub(super) hold_ttl: Option<Located<Duration>>,
    pub(super) parts: Option<Located<Parts>>,
    pub(super) candidate: Option<Located<Candidate>>,
    pub(super) plans: Vec<PlanConfig>,
    pub(super) keys: Vec<Located<(String, Assignment)>>,
    pub(super) source: Option<SourceConfig>,
    pub(super) schedule: Vec<Located<ScheduleEntry>>,
}

// === impl RawLimit ===

impl RawLimit {
    /// Reads every key of `table`.
    pub(super) fn read(table: &RawTable<'_>, variables: Variables<'_>) -> Self {
        let written = parts::algorithm(table, table.text::<Algorithm>("algorithm"));
        let is_misspelt = written.is_none() && table.has("algorithm");
        let algorithm = match &written {
            Some(written) => written.value,
            None if is_misspelt => windows::guess_algorithm(table),
            None => Algorithm::default(),
        };
        if !is_misspelt {
            windows::check_keys(table, algorithm);
        }
        let limit = if algorithm.has_permits() {
            Self { permits: permits::read(table), ..Self::default() }
        } else if algorithm.has_windows() {
            Self { windows: windows::read(table, algorithm), ..Self::default() }
        } else {
            Self::read_steady(table)
        };
        let own = OwnTerms {
            capacity: limit.capacity.as_ref().map(|capacity| capacity.value),
            rate: limit.rate.as_ref().map(|rate| rate.value),
            windows: limit.windows.as_ref().map(|windows| windows.value),
        };
        let has_plans = !algorithm.has_permits() && !algorithm.has_parts();
        Self {
            parts: if is_misspelt { None } else { parts::read(table, algorithm) },
            candidate: has_plans.then(|| candidate::read(table, algorithm, &own)).flatten(),
            plans: if has_plans { plans::read_plans(table, algorithm, &own) } else { Vec::new() },
            keys: if has_plans { plans::read_keys(table) } else { Vec::new() },
            source: table.table("source", keys::SOURCE).and_then(|table| source::read(&table, variables)),
            compare_percent: table.whole("compare_percent", Percent::new),
            keyed: table.flag("keyed"),
            top_keys: table.whole("top_keys", TopKeys::new),
            hash_top_keys: table.flag("hash_top_keys"),
            penalty: table.table("penalty", keys::PENALTY).as_ref().and_then(read_penalty),
            on_abandon: table.text("on_abandon"),
            hold_ttl: table.text_by("hold_ttl", times::hold_ttl),
            algorithm: written,
            shards: table.whole("shards", Shards::new),
            lease: table.table("lease", keys::LEASE).as_ref().and_then(read_lease),
            mode: table.text("mode"),
            on_outage: table.text("on_outage"),
            enforce_percent: table.whole("enforce_percent", Percent::new),
            ..limit
        }
    }

    /// Reads the keys of a limit whose tokens come with time.
    fn read_steady(table: &RawTable<'_>) -> Self {
        table.require("capacity", "");
        let has_refill = table.has("refill");
        if !has_refill {
            table.require("rate", ", or refill = { cron = \"0 0 0 1 * *\" } to fill the bucket at that time");
        }
        let schedule = table.tables("schedule", keys::SCHEDULE);
        Self {
            capacity: table.whole("capacity", Capacity::new),
            max_debt: table.whole("max_debt", max_debt),
            rate: table.text("rate"),
            refill: table.table("refill", keys::REFILL).as_ref().and_then(read_calendar),
            catch_up: table.flag("catch_up"),
            on_change: table.text("on_change"),
            schedule: schedule.iter().filter_map(|entry| read_entry(entry, has_refill)).collect(),
            ..Self::default()
        }
    }
}

/// Tokens of debt.
fn max_debt(tokens: u64) -> Result<u64, HoldsError> {
    Holds::new(tokens, OnAbandon::Charge, Holds::DEFAULT_TTL).map(Holds::max_debt)
}

/// `max` and `ttl` of a table.
fn read_lease(table: &RawTable<'_>) -> Option<Located<Lease>> {
    table.require("max", "");
    let ttl = if table.has("ttl") { table.text_by("ttl", times::ttl)?.value } else { Lease::DEFAULT_TTL };
    let max = table.whole("max", |max| Lease::new(max, ttl))?;
    Some(Located { value: max.value, location: table.location().clone() })
}

/// A penalty.
fn read_penalty(table: &RawTable<'_>) -> Option<Located<Penalty>> {
    for key in ["after", "within", "block"] {
        table.require(key, "");
    }
    let time = |key: &str| table.text_by(key, times::penalty).map(|time| time.value);
    let (within, block) = (time("within"), time("block"));
    let longest = if table.has("max") { time("max") } else { Some(Penalty::DEFAULT_LONGEST) };
    let any = *Penalty::TIMES.start();
    let factor = if table.has("factor") {
        let factor = table.whole("factor", |factor| Penalty::new(1, any, any, factor, any).map(|_| factor));
        factor.map(|factor| factor.value)
    } else {
        Some(Penalty::DEFAULT_FACTOR)
    };
    let after = table.whole("after", |after| Penalty::new(after, any, any, 1, any).map(|_| after));
    let (after, within, block, factor, longest) = (after?.value, within?, block?, factor?, longest?);
    table.locate_value(table.location().clone(), Penalty::new(after, within, block, factor, longest))
}

/// `cron` and `timezone` of a table.
fn read_calendar(table: &RawTable<'_>) -> Option<Calendar> {
    table.require("cron", "");
    let (cron, zone) = (table.text::<Expression>("cron"), table.text::<Zone>("timezone"));
    Some(Calendar::new(cron?.value, zone.map(|zone| zone.value).unwrap_or_default()))
}

/// One table of a schedule. `has_refill` says that the limit is a calendar quota, which has no rate.
fn read_entry(table: &RawTable<'_>, has_refill: bool) -> Option<Located<ScheduleEntry>> {
    if !table.has("rate") && !table.has("capacity") {
        if has_refill {
            table.require("capacity", "");
        } else {
            table.require("rate", ", capacity = 400, or both");
        }
    }
    if let Some(location) = table.find("rate").filter(|_| has_refill) {
        table.error(&location, keys::REFILL_HAS_NO_RATE);
    }
    let (rate, capacity) = (table.text("rate"), table.whole("capacity", Capacity::new));
    let (rate, capacity) = (rate.map(|rate| rate.value), capacity.map(|capacity| capacity.value));
    let value = ScheduleEntry { calendar: read_calendar(table)?, rate, capacity };
    Some(Located { value, location: table.location().clone() })
}
