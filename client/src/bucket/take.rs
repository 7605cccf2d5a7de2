//! Takes of one bucket.

use std::sync::Arc;

use super::{Bucket, checked};
use crate::{
    decision::Decision,
    error::{Answered, Error},
    machine::Micros,
    place::plan_changed,
    shell::{BucketEntry, exceeds},
};

// === impl Bucket ===

impl Bucket {
    /// Takes `count` tokens, all or nothing. `count` is 1 to 2^53.
    ///
    /// Concurrent takes share one command to Redis; those of several tokens, where the bucket holds plenty. They are served
    /// in the order of the calls.
    ///
    /// # Errors
    /// [`Error::UnknownLimit`] until a daemon has published the limit. [`Error::ExceedsCapacity`] if the bucket can never
    /// hold `count` tokens. An error for an invalid name, key or count. A transient error if Redis gives no answer within
    /// the [deadline](crate::Builder::deadline). No take is ever retried: one that failed may have been carried out.
    pub async fn take(&self, count: u64) -> Result<Decision, Error> {
        checked(count)?;
        let entry = self.entry()?;
        if !self.is_to_be_placed(entry) {
            // As `take_here`, whose future would cost every take from memory.
            if count == 1 && entry.may_tell() {
                tokio::task::consume_budget().await;
                if let Some(answer) =
                    self.decide_from_memory(entry, |count| entry.limit().counts.add_own(count))
                {
                    return answer;
                }
            }
            match self.take_or_wait(entry, count, None).await {
                Err(Error::PlanChanged { .. }) => {}
                answer => return answer,
            }
        }
        // Boxed, to keep the future of a take small.
        Box::pin(self.take_by_plan(count, None)).await
    }

    /// Takes `count` tokens of this bucket, whatever plan its key has.
    pub(crate) async fn take_here(&self, count: u64) -> Result<Decision, Error> {
        let entry = self.entry()?;
        if count == 1 && entry.may_tell() {
            // A task that takes in a loop and never waits for Redis still has to yield now and then. Before the take, since
            // a task that is cancelled here must not have taken.
            tokio::task::consume_budget().await;
            if let Some(answer) = self.decide_from_memory(entry, |count| entry.limit().counts.add_own(count))
            {
                return answer;
            }
        }
        self.take_or_wait(entry, count, None).await
    }

    /// Takes tokens. `until` is the end of a waiter's patience; `None` for a take.
    pub(crate) async fn take_or_wait(
        &self,
        entry: &Arc<BucketEntry>,
        count: u64,
        until: Option<Micros>,
    ) -> Answered {
        let shared = self.handle.shared();
        let mut began = None;
        let is_paused = entry.is_paused(&self.handle);
        let published = match entry.published_or_paused(&self.handle) {
            Some(published) if published.limit.keyed == entry.key().is_some() => published,
            _ => {
                if let Err(error) = self.handle.check_circuit(entry) {
                    return self.conclude(entry, count, Err(error));
                }
                began = Some(shared.clock.now());
                // Boxed, to keep the future of a take small: a process may have very many.
                match Box::pin(self.handle.within_deadline(entry.read(&self.handle))).await {
                    Ok(published) => published,
                    Err(error) => return self.conclude(entry, count, Err(error)),
                }
            }
        };
        if let Some(decision) = published.decision_if_off(entry.key()) {
            return self.conclude(entry, count, Ok(decision));
        }
        if entry.name().as_plan().is_none() && self.is_to_be_placed(entry) {
            return Err(plan_changed(entry));
        }
        if published.refuses(count, self.handle.shared().control.redis_now()) {
            return self.conclude(entry, count, Err(exceeds(entry, count, published.terms.capacity)));
        }
        // A paused bucket sends nothing.
        if let Err(error) = if is_paused { Ok(()) } else { self.handle.check_circuit(entry) } {
            return self.conclude(entry, count, Err(error));
        }
        let pending = entry.take(count, until, &published, &self.handle);
        drop(published);
        let result = match began.filter(|_| until.is_none()) {
            None => pending.await,
            // The time in which the limit was read is part of the take's deadline.
            Some(began) => {
                let left = shared.deadline.saturating_sub(shared.clock.since(began));
                let late = Err(Error::DeadlineExceeded { deadline: shared.deadline });
                Box::pin(shared.clock.timeout(left, pending)).await.unwrap_or(late)
            }
        };
        if let Err(Error::PlanChanged { .. }) = result {
            return result;
        }
        self.conclude(entry, count, result)
    }
}
