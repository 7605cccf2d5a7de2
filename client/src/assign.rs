//! Assignments of keys to plans, by code.

use std::time::{SystemTime, UNIX_EPOCH};

use topup_wire::{
    limit::{Assignment, Target},
    scripts,
};

use crate::{client::Client, error::Error, shell::not_tokens};

// === impl Client ===

impl Client {
    /// Assigns `key` of the limit `limit` to a plan of its config, `[limit.user.plan.gold]`, or to `exempt` or `deny`. With
    /// `until`, the assignment ends at that instant of Redis `TIME`.
    ///
    /// It goes before what source and config say of the key, and replaces an earlier assignment. It takes force 1.25 s
    /// later, at one instant for all workers. If an earlier change of the key has not taken force yet, the call waits for
    /// that first. Tokens stay as the `on_change` of the limit says, and no window gives more than the larger of both
    /// plans.
    ///
    /// # Errors
    /// [`Error::UnknownPlan`], [`Error::InvalidPlan`], and errors as for [`Bucket::take`](crate::Bucket::take). May be called
    /// again without harm.
    pub async fn assign(
        &self,
        limit: impl AsRef<str>,
        key: impl AsRef<str>,
        plan: impl AsRef<str>,
        until: Option<SystemTime>,
    ) -> Result<(), Error> {
        let target: Target = plan.as_ref().parse().map_err(Error::InvalidPlan)?;
        let since_epoch = until.map(|until| until.duration_since(UNIX_EPOCH).unwrap_or_default());
        let until = since_epoch.map(|until| u64::try_from(until.as_micros()).unwrap_or(u64::MAX >> 11));
        self.change_assignment(limit.as_ref(), key.as_ref(), Some(Assignment { target, until })).await
    }

    /// Takes an assignment by hand back, as [`assign`](Self::assign) made it: source and config decide again. No error
    /// if there is none.
    ///
    /// # Errors
    /// The same as for [`assign`](Self::assign).
    pub async fn unassign(&self, limit: impl AsRef<str>, key: impl AsRef<str>) -> Result<(), Error> {
        self.change_assignment(limit.as_ref(), key.as_ref(), None).await
    }

    async fn change_assignment(
        &self,
        limit: &str,
        key: &str,
        assignment: Option<Assignment>,
    ) -> Result<(), Error> {
        let bucket = self.limit(limit).key(key);
        let (entry, handle) = (bucket.entry()?, self.handle());
        let published = handle.within_deadline(entry.read(handle)).await?;
        if published.limit.algorithm.has_permits() {
            return Err(not_tokens(entry));
        }
        if let Some(target) = assignment.map(|one| one.target)
            && !published.limit.plans.knows(target)
        {
            return Err(Error::UnknownPlan { limit: limit.to_owned(), plan: target.to_string() });
        }
        let mut connection = handle.shared().connection();
        let changes = [(key.to_owned(), assignment)];
        loop {
            let assigned = scripts::try_assign(&mut connection, entry.name(), &changes);
            match handle.within_deadline(async { assigned.await.map_err(Error::redis) }).await? {
                Ok(_) => return Ok(()),
                // An earlier change of the key takes force first.
                Err(wait) => handle.shared().clock.sleep(wait).await,
            }
        }
    }
}
