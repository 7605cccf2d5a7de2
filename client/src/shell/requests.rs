//! Requests for one bucket that go by themselves, beside the pipeline.

use std::sync::Arc;

use topup_wire::{
    bucket::Operation,
    limit::Algorithm,
    reply::{Settled, Verdict},
    scripts,
};

use super::{BucketEntry, Handle, Published};
use crate::{
    error::Error,
    machine::{Command, Event, Reply},
};

/// A limit that is still unknown when asked for the fourth time is unknown.
const MOST_UNKNOWN: u32 = 4;

// === impl BucketEntry ===

impl BucketEntry {
    /// The limit as published now, read if that is needed.
    pub(crate) async fn read(&self, handle: &Handle) -> Result<Arc<Published>, Error> {
        let published = match self.published(handle) {
            Some(published) => published,
            None => handle.shared().read(self.limit()).await?,
        };
        let limit = || self.name().to_string();
        match (published.limit.keyed, self.key()) {
            (true, None) => Err(Error::KeyRequired { limit: limit() }),
            (false, Some(_)) => Err(Error::KeyUnexpected { limit: limit() }),
            _ => Ok(published),
        }
    }

    /// Has the limit read, for whoever asks next.
    pub(crate) fn search(self: &Arc<Self>, handle: &Handle) {
        let (entry, handle) = (self.clone(), handle.clone());
        let runtime = handle.shared().runtime.clone();
        runtime.spawn(async move {
            // An error is for whoever waits for an answer, and nobody does.
            let _ = handle.within_deadline(entry.read(&handle)).await;
            entry.step(Event::Wake, &handle, None);
        });
    }

    /// Sends an operation, in whatever way the limit decides.
    pub(crate) async fn settle(
        &self,
        operation: Operation,
        may_count: bool,
        doubt: u64,
        handle: &Handle,
    ) -> Result<Settled, Error> {
        let mut connection = handle.shared().connection();
        let mut refusals = 0;
        loop {
            let published = self.read(handle).await?;
            if let Some(free) = published.free_settled(self.key(), operation) {
                return Ok(free);
            }
            let location = published.locate(self.key());
            // A change of kind reaches one shard after another: this one may not be yet, or no longer, what the first,
            // which is read, says. Its own record does.
            let own = if refusals > 0 {
                scripts::algorithm_of(&mut connection, location.keys).await?
            } else {
                None
            };
            let algorithm = own.unwrap_or(location.algorithm());
            if matches!(operation, Operation::Reserve { .. }) && algorithm != Algorithm::LeakyBucket {
                return Err(Error::NoQueue { limit: self.name().to_string(), algorithm: algorithm.as_str() });
            }
            let settled = location.operate(&mut connection, algorithm, operation, may_count, doubt).await;
            let settled = match settled {
                // The bucket is on another node by now, which has to be given the script, too. Nothing was done.
                Err(error) if scripts::is_not_loaded(&error) && refusals + 1 < MOST_UNKNOWN => {
                    refusals += 1;
                    continue;
                }
                settled => settled?,
            };
            match settled.verdict {
                Verdict::Unknown => {
                    // Removed, or changed in kind since it was read. Nothing was done: asking again is safe.
                    self.limit().invalidate();
                    refusals += 1;
                    if refusals == MOST_UNKNOWN {
                        return Err(unknown(self));
                    }
                }
                Verdict::ExceedsCapacity => {
                    let count = operation.count();
                    return Err(exceeds(self, count, settled.capacity));
                }
                _ => return Ok(settled),
            }
        }
    }

    /// Sends a command of the pipeline by itself, which was not carried out there.
    pub(crate) async fn send(
        &self,
        command: Command,
        elsewhere: bool,
        handle: &Handle,
    ) -> Result<Reply, Error> {
        let mut connection = handle.shared().connection();
        match command {
            Command::Settle { operation, may_count, doubt } => {
                self.settle(operation, may_count, doubt, handle).await.map(Reply::Settled)
            }
            Command::Decrement { by } if elsewhere => {
                let published = self.read(handle).await?;
                match published.locate(self.key()).decrement(&mut connection, by).await {
                    Err(error) if scripts::is_not_a_counter(&error) => Ok(Reply::NotCounting),
                    left => Ok(Reply::Left(left?)),
                }
            }
            Command::FirstTake { count, full_at: 0 } if elsewhere => {
                let published = self.read(handle).await?;
                Ok(Reply::First(published.locate(self.key()).first_take(&mut connection, count).await?))
            }
            // Nothing was done: the settle that follows finds the bucket where it is.
            Command::Decrement { .. } | Command::TakeAtRest { .. } => Ok(Reply::NotCounting),
            Command::FirstTake { .. } => Ok(Reply::First(false)),
        }
    }
}

// === impl Handle ===

impl Handle {
    /// What comes of `call` within the deadline.
    pub(crate) async fn within_deadline<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let deadline = self.shared().deadline;
        tokio::time::timeout(deadline, call).await.unwrap_or(Err(Error::DeadlineExceeded { deadline }))
    }
}

pub(crate) fn unknown(entry: &BucketEntry) -> Error {
    Error::UnknownLimit { limit: entry.name().to_string() }
}

pub(crate) fn exceeds(entry: &BucketEntry, count: u64, capacity: u64) -> Error {
    Error::ExceedsCapacity { limit: entry.name().to_string(), count, capacity }
}
