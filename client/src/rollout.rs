//! What a limit that is not in force for all makes of a decision.

use std::{sync::Arc, time::Duration};

use topup_wire::{bucket::Operation, limit::Mode, reply::Settled};

use crate::{
    aside::Undecided,
    bucket::Bucket,
    decision::Decision,
    error::Error,
    shell::{BucketEntry, Published},
};

// === impl Published ===

impl Published {
    /// What the limit tells `key` where it is off.
    pub(crate) fn free(&self, key: Option<&str>) -> Option<Decision> {
        let capacity = self.limit.terms.capacity.get();
        (self.mode(key) == Mode::Off).then_some(Decision::Allowed { remaining: capacity, capacity })
    }

    /// The same, as a script would say it; what is asked for all the same is to fill the bucket.
    pub(crate) fn free_settled(&self, key: Option<&str>, operation: Operation) -> Option<Settled> {
        let asked = self.mode(key) != Mode::Off || operation == Operation::Reset;
        (!asked).then(|| Settled::free(self.limit.terms.capacity, operation))
    }

    /// What becomes of what was told: a limit that is not enforced stops nobody, neither with a denial nor because
    /// nothing can be decided.
    pub(crate) fn judge(&self, key: Option<&str>, told: Result<Decision, Error>) -> Result<Decision, Error> {
        let capacity = self.limit.terms.capacity.get();
        let allowed = Ok(Decision::Allowed { remaining: capacity, capacity });
        match (self.mode(key), told) {
            (Mode::Enforce, told) => told,
            (_, Err(error)) if error.is_of_redis() => allowed,
            (Mode::Off, Ok(Decision::Denied { .. }) | Err(Error::ExceedsCapacity { .. })) => allowed,
            (Mode::Shadow, Ok(Decision::Denied { remaining, capacity, retry_after })) => {
                Ok(Decision::Shadowed { remaining, capacity, retry_after })
            }
            (Mode::Shadow, Err(Error::ExceedsCapacity { capacity, .. })) => {
                Ok(Decision::Shadowed { remaining: 0, capacity, retry_after: Duration::MAX })
            }
            // A name or key that is none, and a limit that is not there, is for the caller to mend.
            (_, told) => told,
        }
    }
}

// === impl Bucket ===

impl Bucket {
    /// What becomes of a decision about a take of `count` tokens. Of that of an ordinary bucket, nothing.
    #[inline]
    pub(crate) fn passed(&self, entry: &BucketEntry, count: u64, decision: Decision) -> Decision {
        if entry.limit().is_special() { self.special(entry, count, decision) } else { decision }
    }

    /// The same, where there may be an error instead.
    #[inline]
    pub(crate) fn decided(
        &self,
        entry: &BucketEntry,
        count: u64,
        told: Result<Decision, Error>,
    ) -> Result<Decision, Error> {
        match told {
            Ok(decision) => Ok(self.passed(entry, count, decision)),
            Err(error) => self.failed(entry, count, error),
        }
    }

    #[cold]
    fn special(&self, entry: &BucketEntry, count: u64, decision: Decision) -> Decision {
        let Some(published) = entry.limit().last() else { return decision };
        // No error comes of what is none.
        let judged = published.judge(entry.key(), Ok(decision)).unwrap_or(decision);
        self.tried(entry, &published, count, Ok(judged));
        judged
    }

    /// Of a bucket that could not be found, it is not known yet whether it is an ordinary one.
    #[cold]
    fn failed(&self, entry: &BucketEntry, count: u64, error: Error) -> Result<Decision, Error> {
        let Some(published) = self.last_published(entry) else { return Err(error) };
        let undecided = error.is_of_redis();
        let judged = published.judge(entry.key(), Err(error));
        match &judged {
            _ if undecided => self.tried(entry, &published, count, Err(Undecided)),
            Ok(decision) => self.tried(entry, &published, count, Ok(*decision)),
            Err(_) => {}
        }
        judged
    }

    /// What becomes of what the bucket told to someone who takes nothing.
    pub(crate) fn judged(
        &self,
        entry: &BucketEntry,
        told: Result<Decision, Error>,
    ) -> Result<Decision, Error> {
        if told.is_ok() && !entry.limit().is_special() {
            return told;
        }
        match self.last_published(entry) {
            Some(published) => published.judge(entry.key(), told),
            None => told,
        }
    }

    /// The limit as it was when it could be read, if the bucket is one of it.
    pub(crate) fn last_published(&self, entry: &BucketEntry) -> Option<Arc<Published>> {
        entry.limit().last().filter(|published| published.limit.keyed == entry.key().is_some())
    }
}
