//! The check of a row: its key, its plan and its end.

use topup_wire::limit::{Assignment, Key, LimitName, Plans, Target};

use super::row::Row;
use crate::config::Instant;

/// The end of the year 2255. Redis scripts count no later instants exactly.
const LATEST: u64 = 1 << 53;

/// The assignment of a row.
pub(super) fn checked(limit: &LimitName, plans: &Plans, row: &Row) -> Result<Assignment, String> {
    Key::new(&row.key).map_err(|error| error.to_string())?;
    let target = row.plan.parse::<Target>().map_err(|error| error.to_string())?;
    check_target(limit, plans, target)?;
    let until = row.until.as_deref().filter(|until| !until.is_empty());
    Ok(Assignment { target, until: until.map(instant).transpose()? })
}

/// Refuses a plan that the limit `name` does not have.
pub(crate) fn check_target(name: &LimitName, plans: &Plans, target: Target) -> Result<(), String> {
    if plans.knows(target) {
        return Ok(());
    }
    let names: Vec<String> = plans.names().map(|name| name.to_string()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(format!("limit {name} has no plan {target}: its plans are {known}; others are exempt and deny"))
}

/// An instant of a row, in µs since the Unix epoch.
fn instant(text: &str) -> Result<u64, String> {
    let micros = match text.parse::<u64>() {
        Ok(seconds) => seconds.saturating_mul(1_000_000),
        Err(_) => text.parse::<Instant>().map_err(|error| format!("{error}, or Unix seconds"))?.0,
    };
    if micros > LATEST { Err(format!("{text:?} is later than the year 2255")) } else { Ok(micros) }
}
