//! Takes that need no command to Redis.

use std::sync::Arc;

use topup_wire::counts::Count;

use crate::{
    bucket::{Bucket, Here},
    decision::Decision,
    error::Answered,
    machine::Event,
    shell::BucketEntry,
};

// === impl Bucket ===

impl Bucket {
    /// Takes one token if no command to Redis is needed: a leased token, or a cached denial. `None` if Redis has to
    /// decide: call [`Bucket::take`] then.
    ///
    /// If the limit has a lease and no leased token is left, this call requests the next lease.
    pub fn try_take(&self) -> Option<Decision> {
        let entry = self.entry().ok()?;
        if entry.limit().is_planned() { self.try_take_placed(entry) } else { self.try_take_here(entry) }
    }

    /// [`Bucket::try_take`] under a plan. Never inlined: finding the plan's bucket needs 20 KiB of stack.
    #[inline(never)]
    fn try_take_placed(&self, entry: &Arc<BucketEntry>) -> Option<Decision> {
        match self.here_now()? {
            Here::Bucket(bucket) => bucket.try_take_here(bucket.entry().ok()?),
            Here::Decided(decision) => self.conclude_decision(entry, 1, decision).ok(),
        }
    }

    #[inline]
    fn try_take_here(&self, entry: &Arc<BucketEntry>) -> Option<Decision> {
        self.try_take_noting(entry, |count| entry.limit().counts.add_own(count))
    }

    /// The decision about one token, if it needs no command, after `note` of what is to be counted.
    #[inline]
    pub(crate) fn try_take_noting(
        &self,
        entry: &Arc<BucketEntry>,
        note: impl FnOnce(Count),
    ) -> Option<Decision> {
        let decided = self.decide_from_memory(entry, note);
        if decided.is_some() {
            return decided?.ok();
        }
        self.conclude_decision(entry, 1, self.try_without_token(entry)?).ok()
    }

    /// The answer to a take of one token that memory decides, after `note` of what is to be counted.
    #[inline]
    pub(crate) fn decide_from_memory(
        &self,
        entry: &Arc<BucketEntry>,
        note: impl FnOnce(Count),
    ) -> Option<Answered> {
        if !entry.limit().is_special() {
            return entry.at_once_noting(self.handle(), note).map(Ok);
        }
        let decision = entry.at_once(self.handle())?;
        Some(self.conclude_decision(entry, 1, decision))
    }

    /// A decision that needs neither a token in hand nor Redis. Without one, makes the next call likely to have one.
    #[cold]
    pub(crate) fn try_without_token(&self, entry: &Arc<BucketEntry>) -> Option<Decision> {
        let Some(published) = entry.published(self.handle()) else {
            entry.search(self.handle());
            return None;
        };
        let denial = || entry.denial(1, &published, self.handle()).map(Decision::from);
        let decision = published.decision_if_off(entry.key()).or_else(denial);
        if decision.is_none() && published.limit.lease.is_some() {
            entry.step(Event::TakeAhead, self.handle(), None);
        }
        decision
    }
}
