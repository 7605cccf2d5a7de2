//! What a limit that is not in force for all makes of a decision.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use topup_wire::{bucket::Operation, limit::Mode, reply::Settled};

use crate::{
    aside::Undecided, bucket::Bucket, decision::Decision, error::Error, published::Place, slot::Slot,
};

/// Whether there is more to a bucket than its own decisions. Read by every take, so it lies where that is; written when
/// the place of the bucket is.
#[derive(Debug, Default)]
pub(crate) struct Special(AtomicBool);

// === impl Special ===

impl Special {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn note(&self, place: &Place) {
        self.0.store(place.published.tally.is_some(), Relaxed);
    }
}

// === impl Place ===

impl Place {
    /// What a limit that is off answers.
    pub(crate) fn free(&self) -> Option<Decision> {
        let capacity = self.published.limit.terms.capacity.get();
        (self.mode == Mode::Off).then_some(Decision::Allowed { remaining: capacity, capacity })
    }

    /// The same, as a script would say it; what is asked for all the same is to fill the bucket.
    pub(crate) fn free_settled(&self, operation: Operation) -> Option<Settled> {
        let asked = self.mode != Mode::Off || operation == Operation::Reset;
        (!asked).then(|| Settled::free(self.published.limit.terms.capacity, operation))
    }

    /// What becomes of what was told: a limit that is not enforced stops nobody, neither with a denial nor because
    /// nothing can be decided.
    pub(crate) fn judge(&self, told: Result<Decision, Error>) -> Result<Decision, Error> {
        let capacity = self.published.limit.terms.capacity.get();
        let allowed = Ok(Decision::Allowed { remaining: capacity, capacity });
        match (self.mode, told) {
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
    pub(crate) fn passed(&self, slot: &Slot, count: u64, decision: Decision) -> Decision {
        if slot.is_special() { self.special(slot, count, decision) } else { decision }
    }

    /// The same, where there may be an error instead.
    #[inline]
    pub(crate) fn decided(
        &self,
        slot: &Slot,
        count: u64,
        told: Result<Decision, Error>,
    ) -> Result<Decision, Error> {
        match told {
            Ok(decision) => Ok(self.passed(slot, count, decision)),
            Err(error) => self.failed(slot, count, error),
        }
    }

    #[cold]
    fn special(&self, slot: &Slot, count: u64, decision: Decision) -> Decision {
        let Some(place) = slot.last_place() else { return decision };
        // No error comes of what is none.
        let judged = place.judge(Ok(decision)).unwrap_or(decision);
        self.tried(&place, count, Ok(judged));
        judged
    }

    /// Of a bucket that could not be found, it is not known yet whether it is an ordinary one.
    #[cold]
    fn failed(&self, slot: &Slot, count: u64, error: Error) -> Result<Decision, Error> {
        let Some(place) = self.last_place(slot) else { return Err(error) };
        let undecided = error.is_of_redis();
        let judged = place.judge(Err(error));
        match &judged {
            _ if undecided => self.tried(&place, count, Err(Undecided)),
            Ok(decision) => self.tried(&place, count, Ok(*decision)),
            Err(_) => {}
        }
        judged
    }

    /// What becomes of what the bucket told to someone who takes nothing.
    pub(crate) fn judged(&self, slot: &Slot, told: Result<Decision, Error>) -> Result<Decision, Error> {
        if told.is_ok() && !slot.is_special() {
            return told;
        }
        match self.last_place(slot) {
            Some(place) => place.judge(told),
            None => told,
        }
    }

    /// Where the bucket is, or was when that could be read.
    pub(crate) fn last_place(&self, slot: &Slot) -> Option<Place> {
        slot.last_place().or_else(|| {
            let published = self.client().shared().last_published(slot.limit())?;
            Place::new(published, slot.key()).ok()
        })
    }
}
