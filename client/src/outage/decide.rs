//! The decision of a take that Redis did not decide.

use std::{sync::Arc, time::Duration};

use topup_wire::limit::OnOutage;

use super::OutageReason;
use crate::{
    bucket::Bucket,
    decision::Decision,
    error::{Answered, Error},
    shell::{BucketEntry, Handle},
};

/// The time after which a denied caller tries again. Redis is found again within it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Outage policies of a call: the first one that is set decides. The limit's own comes second, the client's third.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    /// The call's own.
    pub(crate) call: Option<OnOutage>,
    /// The last one, where no other is set.
    pub(crate) fallback: Option<OnOutage>,
}

// === impl Policies ===

impl Policies {
    /// The policy for a bucket; `None` where the caller gets the error.
    pub(crate) fn of(self, entry: &BucketEntry, handle: &Handle) -> Option<OnOutage> {
        let of_limit = || entry.limit().last()?.limit.on_outage;
        self.call.or_else(of_limit).or(handle.shared().on_outage).or(self.fallback)
    }
}

// === impl Bucket ===

impl Bucket {
    /// The same bucket, whose takes are decided by `on_outage` while Redis gives no decision. It goes before the policy of
    /// the limit and that of the client.
    #[must_use]
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        let policies = Policies { call: Some(on_outage), ..self.policies() };
        self.with_policies(policies)
    }

    /// `result`, or the decision of the outage policy in place of an error of Redis.
    pub(crate) fn decide_outage(&self, entry: &Arc<BucketEntry>, count: u64, result: Answered) -> Answered {
        let decide = |error: &Error| {
            let (decision, by) = self.without_redis(entry, count, OutageReason::of(error)?)?;
            note(self.handle(), entry, decision, by, error);
            Some(decision)
        };
        result.or_else(|error| decide(&error).ok_or(error))
    }

    /// The decision of the outage policy, and the policy; `None` where the caller gets the error. Tokens of a local bucket
    /// are taken.
    pub(crate) fn without_redis(
        &self,
        entry: &Arc<BucketEntry>,
        count: u64,
        reason: OutageReason,
    ) -> Option<(Decision, OnOutage)> {
        let by = self.policies().of(entry, self.handle())?;
        let (allowed, retry_after) = match by {
            OnOutage::Allow => (true, Duration::ZERO),
            OnOutage::Deny => (false, RETRY_AFTER),
            OnOutage::Local => match entry.take_locally(count, self.handle()) {
                Ok(()) => (true, Duration::ZERO),
                Err(wait) => (false, wait.unwrap_or(RETRY_AFTER)),
            },
        };
        Some((Decision::Degraded { allowed, reason, on_outage: by, retry_after }, by))
    }
}

/// Records a decision without Redis.
pub(crate) fn note(handle: &Handle, entry: &BucketEntry, decision: Decision, by: OnOutage, error: &Error) {
    let shared = handle.shared();
    let now = shared.clock.now();
    shared.outages.note(entry.name().as_str(), decision.is_allowed(), by, error, now);
}
