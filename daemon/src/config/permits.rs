//! Limits on permits that are held at once.

use topup_wire::limit::{Capacity, CapacityError, MOST_PERMITS, PermitTtl};

use super::{
    raw_table::{Located, RawTable},
    times,
};

/// The most permits of a key, and the time for which each is good after a renewal.
#[derive(Clone, Copy, Debug)]
pub(super) struct PermitTerms {
    pub(super) limit: Capacity,
    pub(super) ttl: PermitTtl,
}

/// A number of permits outside 1 to [`MOST_PERMITS`].
#[derive(Debug, thiserror::Error)]
#[error("a limit is of 1 to {MOST_PERMITS} permits, not {0}")]
struct WrongLimit(u64);

/// Reads `limit` and `ttl` of a limit with permits. Reports a candidate, which it cannot have.
pub(super) fn read(table: &RawTable<'_>) -> Option<Located<PermitTerms>> {
    if let Some(location) = table.find("candidate") {
        table.error(&location, "permits are held once, and have no candidate: remove it");
    }
    table.require("limit", "");
    let ttl = match table.has("ttl") {
        true => table.text_by("ttl", times::permit_ttl).map(|ttl| ttl.value),
        false => Some(PermitTtl::DEFAULT),
    };
    let limit = table.whole("limit", |limit| match Capacity::new(limit) {
        Ok(capacity) if limit <= MOST_PERMITS => Ok(capacity),
        Ok(_) | Err(CapacityError(_)) => Err(WrongLimit(limit)),
    })?;
    Some(Located { value: PermitTerms { limit: limit.value, ttl: ttl? }, location: limit.location })
}
