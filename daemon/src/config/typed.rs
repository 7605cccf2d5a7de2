//! A limit as typed, and the rules between its keys.

use std::time::Duration;

use topup_wire::limit::{
    Algorithm, Capacity, Lease, LimitName, Mode, OnChange, Percent, Rate, Rollout, Shards, Windows,
};

use super::{
    Candidate, Entry, LimitConfig, Source, candidate, keys,
    table::{Found, Table},
    times::Ttl,
    warnings, windows,
};
use crate::calendar::{Calendar, Expression, Zone};

/// The shards of a keyed limit that names no number: enough to spread it over a small cluster.
const KEYED_SHARDS: u64 = 8;

/// The keys of a limit; `None` for what is absent or, as reported, wrong.
#[derive(Debug, Default)]
pub(super) struct Limit {
    keyed: Option<Found<bool>>,
    algorithm: Option<Found<Algorithm>>,
    capacity: Option<Found<Capacity>>,
    rate: Option<Found<Rate>>,
    refill: Option<Calendar>,
    windows: Option<Found<Windows>>,
    catch_up: Option<Found<bool>>,
    on_change: Option<Found<OnChange>>,
    shards: Option<Found<Shards>>,
    lease: Option<Found<Lease>>,
    mode: Option<Found<Mode>>,
    enforce_percent: Option<Found<Percent>>,
    compare_percent: Option<Found<Percent>>,
    candidate: Option<Found<Candidate>>,
    schedule: Vec<Found<Entry>>,
}

// === impl Limit ===

impl Limit {
    /// Reads every key of `table`.
    pub(super) fn read(table: &Table<'_>) -> Self {
        let algorithm = table.text::<Algorithm>("algorithm");
        let decides = match &algorithm {
            None if table.given("algorithm").is_some() => windows::guessed(table),
            found => found.as_ref().map(|found| found.value).unwrap_or_default(),
        };
        if algorithm.is_some() || table.given("algorithm").is_none() {
            windows::check_keys(table, decides);
        }
        let limit = if decides.has_windows() {
            Self { windows: windows::read(table, decides), ..Self::default() }
        } else {
            Self::read_steady(table)
        };
        let own = (
            limit.capacity.as_ref().map(|found| found.value),
            limit.rate.as_ref().map(|found| found.value),
            limit.windows.as_ref().map(|found| found.value),
        );
        Self {
            candidate: candidate::read(table, decides, own),
            compare_percent: table.whole("compare_percent", Percent::new),
            keyed: table.flag("keyed"),
            algorithm,
            shards: table.whole("shards", Shards::new),
            lease: table.table("lease", keys::LEASE).as_ref().and_then(lease),
            mode: table.text("mode"),
            enforce_percent: table.whole("enforce_percent", Percent::new),
            ..limit
        }
    }

    /// Reads the keys of a limit whose tokens come with time.
    fn read_steady(table: &Table<'_>) -> Self {
        table.require("capacity", "");
        let refills = table.given("refill").is_some();
        if !refills {
            table.require("rate", ", or refill = { cron = \"0 0 0 1 * *\" } to fill the bucket at that time");
        }
        let schedule = table.tables("schedule", keys::SCHEDULE);
        Self {
            capacity: table.whole("capacity", Capacity::new),
            rate: table.text("rate"),
            refill: table.table("refill", keys::REFILL).as_ref().and_then(calendar),
            catch_up: table.flag("catch_up"),
            on_change: table.text("on_change"),
            schedule: schedule.iter().filter_map(|entry| read_entry(entry, refills)).collect(),
            ..Self::default()
        }
    }

    /// The limit, when it has a `name` and its keys go together; else the reasons are reported.
    pub(super) fn check(
        self,
        table: &Table<'_>,
        name: Option<LimitName>,
        tick: Duration,
    ) -> Option<LimitConfig> {
        let has_windows = self.algorithm.as_ref().is_some_and(|found| found.value.has_windows());
        if !has_windows {
            self.check_refill(table);
            self.check_algorithm(table);
        }
        self.check_keys(table);
        self.check_lease(table);
        self.check_compared(table);
        let keyed = self.keyed.is_some_and(|keyed| keyed.value);
        let source = match (&self.rate, self.refill, &self.windows) {
            (.., Some(windows)) => Source::Windows(windows.value),
            (_, Some(calendar), _) => Source::Calendar(calendar),
            (Some(rate), ..) => Source::Rate(rate.value),
            _ => return None,
        };
        let capacity = match source {
            Source::Windows(windows) => windows.capacity(),
            _ => self.capacity?.value,
        };
        let default_shards = if keyed { Shards::new(KEYED_SHARDS).ok()? } else { Shards::ONE };
        let limit = LimitConfig {
            name: name?,
            keyed,
            algorithm: self.algorithm.map(|found| found.value).unwrap_or_default(),
            capacity,
            source,
            catch_up: self.catch_up.is_none_or(|found| found.value),
            on_change: self.on_change.map(|found| found.value).unwrap_or_default(),
            shards: self.shards.map_or(default_shards, |found| found.value),
            lease: self.lease.map(|found| found.value),
            rollout: Rollout {
                mode: self.mode.map(|found| found.value).unwrap_or_default(),
                enforced: self.enforce_percent.map(|found| found.value).unwrap_or_default(),
            },
            candidate: self.candidate.map(|found| found.value),
            compared: self.compare_percent.map_or(Percent::NONE, |found| found.value),
            schedule: self.schedule.iter().map(|found| found.value.clone()).collect(),
        };
        let places: Vec<_> = self.schedule.into_iter().map(|found| found.place).collect();
        warnings::warn(&limit, table, self.rate.as_ref().map(|rate| &rate.place), &places, tick);
        Some(limit)
    }

    fn check_refill(&self, table: &Table<'_>) {
        let Some(refill) = table.given("refill") else { return };
        if table.given("rate").is_some() {
            table.error(&refill, "a limit has rate or refill, never both: remove one of them");
        }
        if let Some(off) = self.catch_up.as_ref().filter(|catch_up| !catch_up.value) {
            table.error(&off.place, "a limit with refill has no rate to catch up with: remove catch_up");
        }
    }

    fn check_algorithm(&self, table: &Table<'_>) {
        let scripted = |found: &&Found<Algorithm>| found.value.is_script_only();
        let Some(scripted) = self.algorithm.as_ref().filter(scripted) else { return };
        let algorithm = scripted.value;
        if table.given("refill").is_some() {
            let advice = format!(
                "the daemon does not fill buckets of {algorithm}: write algorithm = \"token-bucket\", or a rate for refill"
            );
            table.error(&scripted.place, advice);
        }
        if let Some(off) = self.catch_up.as_ref().filter(|catch_up| !catch_up.value) {
            let advice = format!(
                "{algorithm} credits at every take: remove catch_up, or write algorithm = \"token-bucket\""
            );
            table.error(&off.place, advice);
        }
        if algorithm == Algorithm::Gcra {
            self.check_arrivals(table);
        }
    }

    /// One instant in µs tells how full a bucket is only where tokens come one at a time, and soon enough.
    fn check_arrivals(&self, table: &Table<'_>) {
        let (Some(capacity), Some(rate)) = (&self.capacity, &self.rate) else { return };
        let entries = self.schedule.iter().map(|entry| {
            let Entry { capacity: other, rate: faster, .. } = &entry.value;
            (&entry.place, other.unwrap_or(capacity.value), faster.unwrap_or(rate.value))
        });
        for (place, capacity, rate) in
            std::iter::once((&rate.place, capacity.value, rate.value)).chain(entries)
        {
            if !rate.pace().can_rest(capacity.get()) {
                let advice = "gcra counts at most 1000000 tokens a second, and no more of them than come in 50 years: \
                              write less, or algorithm = \"lazy-token-bucket\"";
                table.error(place, advice);
            }
        }
    }

    fn check_lease(&self, table: &Table<'_>) {
        let Some(lease) = &self.lease else { return };
        if self.algorithm.as_ref().is_some_and(|found| found.value != Algorithm::TokenBucket) {
            table.error(
                &lease.place,
                "only token buckets are leased: remove lease, or write algorithm = \"token-bucket\"",
            );
        }
        if table.given("refill").is_some() {
            table.error(
                &lease.place,
                "a limit with refill cannot be leased: remove lease, or write a rate for refill",
            );
        }
        if let Some(capacity) = &self.capacity
            && lease.value.max() > capacity.value.get()
        {
            let capacity = capacity.value;
            table.error(
                &lease.place,
                format!("the bucket holds {capacity} tokens at most: write max = {capacity} or less"),
            );
        }
    }

    fn check_compared(&self, table: &Table<'_>) {
        let Some(compared) = &self.compare_percent else { return };
        if self.algorithm.as_ref().is_some_and(|found| found.value != Algorithm::TokenBucket) {
            table.error(
                &compared.place,
                "only token buckets are compared with lazy ones: remove compare_percent, or write algorithm = \"token-bucket\"",
            );
        }
        if table.given("refill").is_some() {
            table.error(
                &compared.place,
                "a lazy bucket has no refill to be compared with: remove compare_percent, or write a rate for refill",
            );
        }
    }

    /// Reports what only a keyed limit has a use for.
    fn check_keys(&self, table: &Table<'_>) {
        // A wrong value of `keyed` is reported already, and might have meant true.
        let unkeyed = if table.given("keyed").is_some() {
            self.keyed.as_ref().is_some_and(|keyed| !keyed.value)
        } else {
            true
        };
        for (key, problem) in [
            (
                "shards",
                "an unkeyed limit has one bucket, which cannot be spread: remove shards, or write keyed = true",
            ),
            (
                "enforce_percent",
                "an unkeyed limit has one bucket for all, and no keys to choose from: remove enforce_percent, or write \
                 mode = \"shadow\" or keyed = true",
            ),
        ] {
            if let Some(place) = table.given(key).filter(|_| unkeyed) {
                table.error(&place, problem);
            }
        }
    }
}

/// `max` and `ttl` of a table.
fn lease(table: &Table<'_>) -> Option<Found<Lease>> {
    table.require("max", "");
    let ttl = match table.given("ttl") {
        Some(_) => table.text::<Ttl>("ttl")?.value.get(),
        None => Lease::DEFAULT_TTL,
    };
    let max = table.whole("max", |max| Lease::new(max, ttl))?;
    Some(Found { value: max.value, place: table.place().clone() })
}

/// `cron` and `timezone` of a table.
fn calendar(table: &Table<'_>) -> Option<Calendar> {
    table.require("cron", "");
    let (cron, zone) = (table.text::<Expression>("cron"), table.text::<Zone>("timezone"));
    Some(Calendar::new(cron?.value, zone.map(|zone| zone.value).unwrap_or_default()))
}

/// One table of a schedule; with its place, for warnings.
fn read_entry(table: &Table<'_>, refills: bool) -> Option<Found<Entry>> {
    let rate = table.given("rate");
    if rate.is_none() && table.given("capacity").is_none() {
        table.require(
            if refills { "capacity" } else { "rate" },
            if refills { "" } else { ", capacity = 400, or both" },
        );
    }
    if let Some(place) = rate.filter(|_| refills) {
        table.error(
            &place,
            "a limit with refill has no rate to change: remove this one, or write capacity = 400",
        );
    }
    let (rate, capacity) = (table.text("rate"), table.whole("capacity", Capacity::new));
    let (rate, capacity) = (rate.map(|found| found.value), capacity.map(|found| found.value));
    let value = Entry { calendar: calendar(table)?, rate, capacity };
    Some(Found { value, place: table.place().clone() })
}
