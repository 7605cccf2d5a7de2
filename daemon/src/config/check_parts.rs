//! The rules between the parts of a limit and its other keys.

use topup_wire::limit::{Capacity, PartsError, Rate};

use super::{raw_limit::RawLimit, raw_table::RawTable};

/// Reports parts that do not fit the terms of the limit, or those of its schedule, and keys that go against them.
pub(super) fn check_parts(raw: &RawLimit, table: &RawTable<'_>) {
    let Some(parts) = &raw.parts else { return };
    if let Some(debt) = raw.max_debt.as_ref().filter(|debt| debt.value > 0) {
        table.error(&debt.location, "a part borrows from the others, and has no debt: remove max_debt");
    }
    if let Some(unkeyed) = raw.keyed.as_ref().filter(|keyed| !keyed.value) {
        table.error(
            &unkeyed.location,
            "parts are told by the keys of takes: remove keyed, or write keyed = true",
        );
    }
    let (Some(capacity), Some(rate)) = (&raw.capacity, &raw.rate) else { return };
    let fits = |capacity: Capacity, rate: Rate| -> Result<(), PartsError> {
        parts.value.under(capacity, rate.pace()).map(drop)
    };
    if let Err(error) = fits(capacity.value, rate.value) {
        table.error(&parts.location, error.to_string());
        return;
    }
    for entry in &raw.schedule {
        let (of, at) =
            (entry.value.capacity.unwrap_or(capacity.value), entry.value.rate.unwrap_or(rate.value));
        if let Err(error) = fits(of, at) {
            table.error(&entry.location, error.to_string());
        }
    }
}
