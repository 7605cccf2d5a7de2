//! The decision of several limits at once.

use std::time::Duration;

use smol_str::SmolStr;
use topup_wire::limit::LimitName;

use crate::{decision::Decision, shell::BucketEntry};

/// The answer to [`Client::take_all`](crate::Client::take_all): all tokens were taken, or none.
#[must_use = "an unread decision limits nothing"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiDecision {
    pub(crate) limits: Vec<LimitDecision>,
}

/// The decision of one limit in a [`MultiDecision`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitDecision {
    pub(crate) limit: LimitName,
    key: Option<SmolStr>,
    pub(crate) decision: Decision,
}

// === impl MultiDecision ===

impl MultiDecision {
    /// Whether the caller may go on. If so, tokens were taken of every limit that is enforced; otherwise of none. A limit
    /// in shadow that had too few tokens gave none either way.
    pub fn is_allowed(&self) -> bool {
        self.limits.iter().all(|limit| limit.decision.is_allowed())
    }

    /// The decision of each limit, in the order of the takes. If one limit denies, the decisions of the others say what
    /// they would have been alone. If a remembered denial decided, only the limits that deny are listed.
    pub fn limits(&self) -> &[LimitDecision] {
        &self.limits
    }

    /// The limit that denies for the longest; `None` when allowed.
    pub fn denied_by(&self) -> Option<&LimitDecision> {
        let denied = self.limits.iter().filter(|limit| !limit.decision.is_allowed());
        // Reversed, since `max_by_key` returns the last of equal ones, and the first is wanted.
        denied.rev().max_by_key(|limit| limit.decision.retry_after())
    }

    /// Time until a denied take would succeed, if no other caller takes meanwhile; `None` when allowed.
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied_by()?.decision.retry_after()
    }

    /// Whether the outage policy decided for any of the limits.
    pub fn is_degraded(&self) -> bool {
        self.limits.iter().any(|limit| limit.decision.is_degraded())
    }

    /// The decision of one bucket.
    pub(crate) fn of_one(entry: &BucketEntry, decision: Decision) -> Self {
        Self { limits: vec![LimitDecision::of(entry, decision)] }
    }
}

// === impl LimitDecision ===

impl LimitDecision {
    /// The name of the limit.
    pub fn limit(&self) -> &str {
        self.limit.as_str()
    }

    /// The key of the bucket; `None` for an unkeyed limit.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The decision.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    pub(crate) fn of(entry: &BucketEntry, decision: Decision) -> Self {
        Self { limit: entry.name().live(), key: entry.kept_key().cloned(), decision }
    }
}
