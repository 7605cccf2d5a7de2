//! Waits for tokens.

use std::{pin::pin, sync::Arc, time::Duration};

use crate::{
    bucket::{Bucket, checked},
    decision::Decision,
    error::{Answered, Error},
    shell::{BucketEntry, clock::micros},
};

// === impl Bucket ===

impl Bucket {
    /// Takes `count` tokens, and waits up to `longest` for them.
    ///
    /// Waiters of one process are served in order. A waiter that finds its tokens taken by other processes reserves the next
    /// ones, so it gets them however often others take. `token-bucket` and `gcra` have reservations, of as many tokens as
    /// come within 30 s. While there are waiters of several processes, takes may get none. A waiter whose turn would come too
    /// late is denied at once. Redis receives about one command of a process for each token that comes, however many tasks
    /// wait. Where tokens come further apart, it is about one a second.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`].
    pub async fn wait(&self, count: u64, longest: Duration) -> Result<Decision, Error> {
        checked(count)?;
        let entry = self.entry()?;
        if !self.is_to_be_placed(entry) && !entry.limit().is_planned() {
            match self.wait_here(count, longest).await {
                Err(Error::PlanChanged { .. }) => {}
                answer => return answer,
            }
        }
        Box::pin(self.take_by_plan(count, Some(longest))).await
    }

    /// Waits for tokens of this bucket, whatever plan its key has.
    pub(crate) async fn wait_here(&self, count: u64, longest: Duration) -> Result<Decision, Error> {
        let entry = self.entry()?;
        let clock = &self.handle().shared().clock;
        let until = clock.now().saturating_add(micros(longest));
        let mut left = longest;
        loop {
            let decision = self.wait_once(entry, count, left).await?;
            match decision {
                // Takes of a local bucket are in no wait queue, so other takes may overtake them.
                Decision::Degraded { allowed: false, .. } => match decision.worth_waiting_for() {
                    Some(wait) if clock.now().saturating_add(micros(wait)) <= until => {
                        clock.sleep(wait).await
                    }
                    _ => return Ok(decision),
                },
                _ => return Ok(decision),
            }
            left = Duration::from_micros(until.saturating_sub(clock.now()));
        }
    }

    async fn wait_once(&self, entry: &Arc<BucketEntry>, count: u64, longest: Duration) -> Answered {
        if longest.is_zero() {
            return self.take_here(count).await;
        }
        let shared = self.handle().shared();
        let until = shared.clock.now().saturating_add(micros(longest));
        let mut take = pin!(self.take_or_wait(entry, count, Some(until)));
        if let Ok(result) = shared.clock.timeout(longest, &mut take).await {
            return result;
        }
        // The time is over: the last known denial is the answer. Without one, the reply in flight is awaited.
        let published = entry.published(self.handle());
        if let Some(denial) =
            published.and_then(|published| entry.last_denial(count, &published, self.handle()))
        {
            return self.conclude(entry, count, Ok(denial.into()));
        }
        let left = shared.deadline.saturating_sub(longest);
        match shared.clock.timeout(left, take).await {
            Ok(result) => result,
            Err(_) => {
                let deadline = shared.deadline.max(longest);
                self.conclude(entry, count, Err(Error::DeadlineExceeded { deadline }))
            }
        }
    }
}
