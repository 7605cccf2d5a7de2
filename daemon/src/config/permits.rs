//! Limits on permits that are held at once.

use topup_wire::limit::{Capacity, PermitTtl, permits_at_once};

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
    let limit = table.whole("limit", permits_at_once)?;
    Some(Located { value: PermitTerms { limit: limit.value, ttl: ttl? }, location: limit.location })
}
