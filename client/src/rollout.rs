//! Modes of a limit: which decisions it enforces, and which it only records.

use std::{sync::Arc, time::Duration};

use topup_wire::{bucket::Operation, counts::Count, limit::Mode, reply::Settled};

use crate::{
    bucket::Bucket,
    decision::Decision,
    error::{Answered, Error},
    shell::{BucketEntry, Handle, Published},
};

// === impl Published ===

impl Published {
    /// The decision for `key` where the limit is off: Redis is not asked.
    pub(crate) fn decision_if_off(&self, key: Option<&str>) -> Option<Decision> {
        let capacity = self.limit.terms.capacity.get();
        (self.mode(key) == Mode::Off).then_some(Decision::Allowed { remaining: capacity, capacity })
    }

    /// The reply to `operation` where the limit is off. A reset is sent to Redis all the same.
    pub(crate) fn reply_if_off(&self, key: Option<&str>, operation: Operation) -> Option<Settled> {
        let is_asked = self.mode(key) != Mode::Off || operation == Operation::Reset;
        (!is_asked).then(|| Settled::free(self.limit.terms.capacity, operation))
    }

    /// `result` under the limit's mode for `key`. A limit that is not enforced turns a denial, or an error of Redis,
    /// into leave to go on.
    pub(crate) fn apply_mode(&self, key: Option<&str>, result: Answered) -> Answered {
        let capacity = self.limit.terms.capacity.get();
        let allowed = Ok(Decision::Allowed { remaining: capacity, capacity });
        match (self.mode(key), result) {
            (Mode::Enforce, result) => result,
            (_, Err(error)) if error.is_of_redis() => allowed,
            (Mode::Off, Ok(Decision::Denied { .. }) | Err(Error::ExceedsCapacity { .. })) => allowed,
            (Mode::Shadow, Ok(Decision::Denied { remaining, capacity, retry_after })) => {
                Ok(Decision::Shadowed { remaining, capacity, retry_after })
            }
            (Mode::Shadow, Err(Error::ExceedsCapacity { capacity, .. })) => {
                Ok(Decision::Shadowed { remaining: 0, capacity, retry_after: Duration::MAX })
            }
            // The caller has to correct a wrong name or key in any mode.
            (_, result) => result,
        }
    }
}

// === impl Bucket ===

impl Bucket {
    /// The answer to a take of `count` tokens that was decided, counted.
    #[inline]
    pub(crate) fn conclude_decision(
        &self,
        entry: &Arc<BucketEntry>,
        count: u64,
        decision: Decision,
    ) -> Answered {
        if entry.limit().count(&decision) {
            return Ok(decision);
        }
        self.conclude_slowly(entry, count, Ok(decision))
    }

    /// The answer to a take of `count` tokens, counted: `result` under the limit's mode.
    pub(crate) fn conclude(&self, entry: &Arc<BucketEntry>, count: u64, result: Answered) -> Answered {
        match result {
            Ok(decision) => self.conclude_decision(entry, count, decision),
            Err(_) => self.conclude_slowly(entry, count, result),
        }
    }

    #[cold]
    fn conclude_slowly(&self, entry: &Arc<BucketEntry>, count: u64, result: Answered) -> Answered {
        if let Ok(decision) = &result
            && !entry.limit().is_on_trial()
        {
            count_answer(self.handle(), entry, Some(decision), false);
            return result;
        }
        self.handle().note_reply(entry, &result);
        let is_undecided = result.as_ref().is_err_and(Error::is_of_redis);
        let published = self.last_published(entry);
        let result = match &published {
            Some(published) => published.apply_mode(entry.key(), result),
            None => result,
        };
        let answer = self.decide_outage(entry, count, result);
        let decision = answer.as_ref().ok();
        count_answer(self.handle(), entry, decision, is_undecided);
        if let Some(published) = published.filter(|_| is_undecided || decision.is_some()) {
            self.repeat_in_shadow(entry, &published, count, decision.copied().filter(|_| !is_undecided));
        }
        answer
    }

    /// `result` under the limit's mode; not recorded, since nothing was taken.
    pub(crate) fn apply_mode(&self, entry: &BucketEntry, result: Answered) -> Answered {
        self.handle().note_reply(entry, &result);
        match self.last_published(entry) {
            Some(published) => published.apply_mode(entry.key(), result),
            None => result,
        }
    }

    /// The limit as last read, if it has such a bucket: keyed or not.
    pub(crate) fn last_published(&self, entry: &BucketEntry) -> Option<Arc<Published>> {
        entry.limit().last().filter(|published| published.limit.keyed == entry.key().is_some())
    }
}

/// Counts the answer to a take that Redis may not have decided. A wrong call is not counted.
pub(crate) fn count_answer(
    client: &Handle,
    entry: &BucketEntry,
    decision: Option<&Decision>,
    is_undecided: bool,
) {
    let counts = &entry.limit().counts;
    match decision {
        Some(decision) if !is_undecided || decision.is_degraded() => {
            entry.limit().note_decision(entry.kept_key(), decision, || entry.is_paused(client));
            counts.add_decision(decision);
        }
        _ if is_undecided => counts.add(Count::Undecided),
        _ => {}
    }
}
