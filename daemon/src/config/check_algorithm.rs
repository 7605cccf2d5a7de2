//! Rules between the algorithm of a limit and its other keys.

use std::iter;

use topup_wire::limit::{Algorithm, GCRA_BOUNDS};

use super::{
    diagnostics::Location,
    limit::ScheduleEntry,
    raw_limit::RawLimit,
    raw_table::{Located, RawTable, value},
};

pub(super) fn check_refill(raw: &RawLimit, table: &RawTable<'_>) {
    let Some(refill) = table.find("refill") else { return };
    if table.has("rate") {
        table.error(&refill, "a limit has rate or refill, never both: remove one of them");
    }
    if let Some(off) = raw.catch_up.as_ref().filter(|catch_up| !catch_up.value) {
        table.error(&off.location, "a limit with refill has no rate to catch up with: remove catch_up");
    }
}

pub(super) fn check_algorithm(raw: &RawLimit, table: &RawTable<'_>) {
    let is_scripted = |algorithm: &&Located<Algorithm>| algorithm.value.is_script_only();
    let Some(Located { value: algorithm, location }) = raw.algorithm.as_ref().filter(is_scripted) else {
        return;
    };
    if table.has("refill") {
        let advice = "write algorithm = \"token-bucket\", or a rate for refill";
        table.error(location, format!("the daemon does not fill buckets of {algorithm}: {advice}"));
    }
    if let Some(off) = raw.catch_up.as_ref().filter(|catch_up| !catch_up.value) {
        let advice = "remove catch_up, or write algorithm = \"token-bucket\"";
        table.error(&off.location, format!("{algorithm} credits at every take: {advice}"));
    }
    if *algorithm == Algorithm::Gcra {
        check_gcra(raw, table);
    }
}

/// GCRA keeps one instant in µs per bucket, so it bounds the rate and the time to fill.
fn check_gcra(raw: &RawLimit, table: &RawTable<'_>) {
    let (Some(capacity), Some(rate)) = (&raw.capacity, &raw.rate) else { return };
    let scheduled = raw.schedule.iter().map(|entry| {
        let ScheduleEntry { capacity: other_capacity, rate: other_rate, .. } = &entry.value;
        (&entry.location, other_capacity.unwrap_or(capacity.value), other_rate.unwrap_or(rate.value))
    });
    for (location, capacity, rate) in
        iter::once((&rate.location, capacity.value, rate.value)).chain(scheduled)
    {
        if !rate.pace().can_rest(capacity.get()) {
            table.error(location, format!("{GCRA_BOUNDS}: write less, or algorithm = \"lazy-token-bucket\""));
        }
    }
}

pub(super) fn check_lease(raw: &RawLimit, table: &RawTable<'_>) {
    let Some(lease) = &raw.lease else { return };
    check_token_bucket(
        raw,
        table,
        &lease.location,
        "only token buckets are leased: remove lease, or write algorithm = \"token-bucket\"",
        "a limit with refill cannot be leased: remove lease, or write a rate for refill",
    );
    if let Some(capacity) = &raw.capacity
        && let Err(error) = lease.value.check_size(capacity.value)
    {
        table.error(&lease.location, error.to_string());
    }
}

pub(super) fn check_compare_percent(raw: &RawLimit, table: &RawTable<'_>) {
    let Some(percent) = &raw.compare_percent else { return };
    check_token_bucket(
        raw,
        table,
        &percent.location,
        "only token buckets are compared with lazy ones: remove compare_percent, or write algorithm = \"token-bucket\"",
        "a lazy bucket has no refill to be compared with: remove compare_percent, or write a rate for refill",
    );
}

/// Reports a key that only a token bucket with a rate may have: one message for another algorithm, one for `refill`.
fn check_token_bucket(
    raw: &RawLimit,
    table: &RawTable<'_>,
    location: &Location,
    other_algorithm: &str,
    refill: &str,
) {
    if value(raw.algorithm.as_ref()).is_some_and(|algorithm| algorithm != Algorithm::TokenBucket) {
        table.error(location, other_algorithm);
    }
    if table.has("refill") {
        table.error(location, refill);
    }
}
