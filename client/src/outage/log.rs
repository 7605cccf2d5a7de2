//! Lines about outages, one for each change.
//!
//! With the feature `tracing`, and a subscriber, they are events. Otherwise they go to stderr.

use std::{fmt::Display, time::Duration};

use topup_wire::limit::OnOutage;

use super::OutageCounts;
#[cfg(feature = "tracing")]
use crate::say::is_traced;
use crate::say::print;

pub(super) fn log_begin(limit: &str, reason: &dyn Display, on_outage: OnOutage) {
    #[cfg(feature = "tracing")]
    if is_traced() {
        let on_outage = on_outage.as_str();
        return tracing::warn!(target: "topup", limit, error = %reason, on_outage, "a limit cannot be decided");
    }
    print(&format!("limit {limit:?} cannot be decided: {reason}: on_outage = {:?}", on_outage.as_str()));
}

pub(super) fn log_end(limit: &str, OutageCounts { allowed, denied }: OutageCounts) {
    #[cfg(feature = "tracing")]
    if is_traced() {
        return tracing::info!(target: "topup", limit, allowed, denied, "a limit is decided again");
    }
    print(&format!(
        "limit {limit:?} is decided again: without Redis, {allowed} takes were allowed and {denied} denied"
    ));
}

/// Redis has begun to be slow, or has ended.
pub(crate) fn log_slow(is_slow: bool, took: Duration) {
    #[cfg(feature = "tracing")]
    if is_traced() {
        return match is_slow {
            true => tracing::warn!(target: "topup", ?took, "Redis is slow"),
            false => tracing::info!(target: "topup", ?took, "Redis is fast again"),
        };
    }
    print(&match is_slow {
        true => format!("Redis is slow: a reply took {took:?}"),
        false => format!("Redis is fast again: a reply took {took:?}"),
    });
}
