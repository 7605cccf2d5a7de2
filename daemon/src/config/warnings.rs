//! Warnings: keys that are legal but probably not meant.

use std::time::Duration;

use topup_wire::limit::{Capacity, Rate};

use super::{
    diagnostics::Location,
    limit::{LimitConfig, ScheduleEntry, SupplyConfig},
    raw_table::RawTable,
};

/// Warns about `limit`. `rate` and `entries` locate its rate and the entries of its schedule.
pub(super) fn warn(
    limit: &LimitConfig,
    table: &RawTable<'_>,
    rate: Option<&Location>,
    entries: &[Location],
    tick: Duration,
) {
    if let SupplyConfig::Rate(own) = limit.supply {
        let scheduled = limit.schedule.iter().zip(entries).map(|(entry, location)| {
            (Some(location), entry.rate.unwrap_or(own), entry.capacity.unwrap_or(limit.capacity))
        });
        let own = std::iter::once((rate, own, limit.capacity));
        for (location, rate, capacity) in own.chain(scheduled).filter(|_| !limit.catch_up) {
            warn_small_bucket(table, location, rate, capacity, tick);
        }
    }
    if let ([entry], [location]) = (limit.schedule.as_slice(), entries) {
        warn_one_way(table, location, entry);
    }
}

/// Warns of a schedule with a single entry: from its first firing on, the entry applies for ever.
fn warn_one_way(table: &RawTable<'_>, location: &Location, entry: &ScheduleEntry) {
    // An entry that fires only once is meant to last.
    if entry.calendar.next(0).and_then(|first| entry.calendar.next(first)).is_none() {
        return;
    }
    let own = match (entry.rate, entry.capacity) {
        (Some(_), Some(_)) => "rate and capacity",
        (Some(_), None) => "rate",
        (None, _) => "capacity",
    };
    let advice = "add an entry that switches back";
    table.warn_at(
        location,
        format!("once this entry has fired, nothing brings back the limit's own {own}: {advice}"),
    );
}

/// Warns of a bucket that is too small for its ticks. Without catch-up, tokens come at ticks only, and a full bucket
/// loses them. A late tick brings more than one tick's tokens.
fn warn_small_bucket(
    table: &RawTable<'_>,
    location: Option<&Location>,
    rate: Rate,
    capacity: Capacity,
    tick: Duration,
) {
    let Some(location) = location else { return };
    let (tokens, micros) = rate.lowest_terms();
    let ticks = |ticks: u128| ticks * u128::from(tokens) * tick.as_micros();
    let credit = |of: u128| ticks(of).div_ceil(u128::from(micros));
    let (one, two, held) = (credit(1), credit(2), u128::from(capacity.get()));
    let comes = format!("{rate} is {one} tokens a tick of {tick:?}, but the bucket holds {capacity}");
    let advice = format!("write capacity = {two} or more, a shorter tick, or remove catch_up = false");
    if one > held {
        table.warn_at(location, format!("the rate is never reached: {comes}: {advice}"));
    } else if ticks(2) > held * u128::from(micros) {
        table.warn_at(
            location,
            format!("a late tick loses tokens: {comes}, less than two ticks bring: {advice}"),
        );
    }
}
