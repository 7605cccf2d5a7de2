//! What is legal but probably not meant.

use std::time::Duration;

use topup_wire::limit::{Capacity, Rate};

use super::{Entry, LimitConfig, Source, report::Place, table::Table};

/// Warns about `limit`; `rate` and `entries` are the places of its rate and of its schedule.
pub(super) fn warn(
    limit: &LimitConfig,
    table: &Table<'_>,
    rate: Option<&Place>,
    entries: &[Place],
    tick: Duration,
) {
    if let Source::Rate(own) = limit.source {
        let scheduled = limit.schedule.iter().zip(entries).map(|(entry, place)| {
            (Some(place), entry.rate.unwrap_or(own), entry.capacity.unwrap_or(limit.capacity))
        });
        let own = std::iter::once((rate, own, limit.capacity));
        for (place, rate, capacity) in own.chain(scheduled).filter(|_| !limit.catch_up) {
            warn_unreached(table, place, rate, capacity, tick);
        }
    }
    if let ([entry], [place]) = (limit.schedule.as_slice(), entries) {
        warn_one_way(table, place, entry);
    }
}

/// A schedule of one entry that fires again and again: from its first firing on, nothing else applies.
fn warn_one_way(table: &Table<'_>, place: &Place, entry: &Entry) {
    // An entry that fires once is a change announced ahead, and meant to last.
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
        place,
        format!("once this entry has fired, nothing brings back the limit's own {own}: {advice}"),
    );
}

/// Without catch-up, tokens come at ticks only, and what a full bucket cannot hold is lost. A tick that comes late brings
/// more than one tick's tokens.
fn warn_unreached(table: &Table<'_>, place: Option<&Place>, rate: Rate, capacity: Capacity, tick: Duration) {
    let Some(place) = place else { return };
    let (tokens, micros) = rate.lowest_terms();
    let ticks = |ticks: u128| ticks * u128::from(tokens) * tick.as_micros();
    let credit = |of: u128| ticks(of).div_ceil(u128::from(micros));
    let (one, two, held) = (credit(1), credit(2), u128::from(capacity.get()));
    let comes = format!("{rate} is {one} tokens a tick of {tick:?}, but the bucket holds {capacity}");
    let advice = format!("write capacity = {two} or more, a shorter tick, or remove catch_up = false");
    if one > held {
        table.warn_at(place, format!("the rate is never reached: {comes}: {advice}"));
    } else if ticks(2) > held * u128::from(micros) {
        table.warn_at(
            place,
            format!("a late tick loses tokens: {comes}, less than two ticks bring: {advice}"),
        );
    }
}
