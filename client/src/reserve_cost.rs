//! Takes at an estimate.

use std::sync::Arc;

use crate::{
    bucket::{Bucket, Here, checked},
    error::Error,
    hold::Hold,
    place::plan_changed,
    shell::BucketEntry,
};

/// Attempts at most while the plan of a key changes.
const MOST_ATTEMPTS: usize = 16;

// === impl Bucket ===

impl Bucket {
    /// Takes `estimate` tokens for work whose cost is known only afterwards, all or nothing. [`Hold::settle`] then puts
    /// back what was not used, or charges what was used beyond it.
    ///
    /// The hold tells the decision: [`Hold::is_allowed`]. `estimate` is 1 to 2^53. A hold of a limit with
    /// `on_abandon = "charge"` costs what a take costs. [`Bucket::reserve`] is another thing: a place in the queue of a
    /// leaky bucket.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(topup: topup::Client) -> Result<(), topup::Error> {
    /// let mut hold = topup.limit("tokens").key("alice").reserve_cost(1_000).await?;
    /// if hold.is_allowed() {
    ///     let used = 730; // the work
    ///     hold.settle(used).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as for [`Bucket::take`].
    pub async fn reserve_cost(&self, estimate: u64) -> Result<Hold, Error> {
        checked(estimate)?;
        let entry = self.entry()?;
        for _ in 0..MOST_ATTEMPTS {
            match self.here().await {
                Ok(Here::Bucket(bucket)) => match bucket.reserve_cost_here(estimate).await {
                    Err(Error::PlanChanged { .. }) => {}
                    answer => return answer,
                },
                Ok(Here::Decided(decision)) => {
                    let mut hold = Hold::new(self, entry, estimate, false);
                    hold.decision = self.conclude(entry, estimate, Ok(decision))?;
                    hold.is_exempt = decision.is_allowed();
                    return Ok(hold);
                }
                Err(error) => return self.reserve_unread(entry, estimate, error).await,
            }
        }
        Err(plan_changed(entry))
    }

    /// Takes an estimate of this bucket, whatever plan its key has.
    async fn reserve_cost_here(&self, estimate: u64) -> Result<Hold, Error> {
        let (entry, handle) = (self.entry()?, self.handle());
        let published = match entry.published(handle) {
            Some(published) => published,
            None => match handle.within_deadline(entry.read(handle)).await {
                Ok(published) => published,
                Err(error) => return self.reserve_unread(entry, estimate, error).await,
            },
        };
        let is_remembered = published.remembers_holds(entry.key());
        let mut hold = Hold::new(self, entry, estimate, is_remembered);
        hold.decision = if is_remembered { hold.reserve().await? } else { self.take_here(estimate).await? };
        Ok(hold)
    }

    /// A hold while the record of the limit cannot be read, for `error`. Redis remembers none: a hold that it has to
    /// remember is decided without it, or is an error.
    async fn reserve_unread(
        &self,
        entry: &Arc<BucketEntry>,
        estimate: u64,
        error: Error,
    ) -> Result<Hold, Error> {
        let is_take = self.last_published(entry).is_some_and(|last| !last.remembers_holds(entry.key()));
        let mut hold = Hold::new(self, entry, estimate, false);
        hold.decision = if is_take {
            self.take(estimate).await?
        } else {
            // A take may succeed meanwhile, and its tokens would be lost with the worker.
            self.conclude(entry, estimate, Err(error))?
        };
        Ok(hold)
    }
}
