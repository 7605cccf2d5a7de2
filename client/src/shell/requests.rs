//! Requests for one bucket outside the pipeline.

use std::sync::Arc;

use futures_util::FutureExt;

use topup_wire::{
    bucket::Operation,
    reply::{Settled, Verdict},
    scripts::{self, InDoubt},
};

use super::{BucketEntry, Handle, Published};
use crate::{
    error::Error,
    machine::{Command, Event, Reply},
};

/// Attempts at most, before a limit counts as unknown.
const MOST_ATTEMPTS: u32 = 4;

// === impl BucketEntry ===

impl BucketEntry {
    /// The limit as published now, read from Redis if it has changed.
    pub(crate) async fn read(&self, handle: &Handle) -> Result<Arc<Published>, Error> {
        let published = match self.published(handle) {
            Some(published) => published,
            // Boxed, since it is read once for very many takes.
            None => Box::pin(handle.shared().read(self.limit())).await?,
        };
        let limit = || self.name().to_string();
        match (published.limit.keyed, self.key()) {
            (true, None) => Err(Error::KeyRequired { limit: limit() }),
            (false, Some(_)) => Err(Error::KeyUnexpected { limit: limit() }),
            _ => Ok(published),
        }
    }

    /// Reads the limit in a task of its own, and wakes the bucket.
    pub(crate) fn search(self: &Arc<Self>, handle: &Handle) {
        let (entry, handle) = (self.clone(), handle.clone());
        let runtime = handle.shared().runtime.clone();
        runtime.spawn(async move {
            // The next take reports an error, if it lasts.
            let _ = handle.within_deadline(entry.read(&handle)).await;
            entry.step(Event::Wake, &handle, None);
        });
    }

    /// Sends `operation` to the script of the limit's algorithm.
    pub(crate) async fn settle(
        &self,
        operation: Operation,
        may_count: bool,
        in_doubt: Option<InDoubt>,
        handle: &Handle,
    ) -> Result<Settled, Error> {
        let mut connection = handle.shared().connection();
        for attempt in 1..=MOST_ATTEMPTS {
            let published = self.read(handle).await?;
            if let Some(settled) = published.reply_if_off(self.key(), operation) {
                return Ok(settled);
            }
            let location = published.locate(self);
            // A change of algorithm reaches one shard after the other. The record that was read is that of the first
            // shard. After a refused command, the record of the bucket's own shard counts.
            let own = if attempt > 1 {
                scripts::algorithm_of(&mut connection, location.keys)
                    .await
                    .map_err(|error| self.limit().unreadable(Error::of_record(self.name(), error)))?
            } else {
                None
            };
            let algorithm = own.unwrap_or(location.algorithm());
            if algorithm.has_permits() && !matches!(operation, Operation::Peek(_)) {
                return Err(not_tokens(self));
            }
            let (connection, keys, member) = (&mut connection, location.keys, location.member);
            match scripts::settle(connection, algorithm, keys, member, operation, may_count, in_doubt).await {
                // Nothing was done: the bucket has moved to a node without the script.
                Err(error) if scripts::is_not_loaded(&error) && attempt < MOST_ATTEMPTS => {}
                Err(error) => return Err(Error::redis(error)),
                // Nothing was done: the limit was removed, or its algorithm changed since it was read.
                Ok(settled) if settled.verdict == Verdict::Unknown => self.limit().invalidate(),
                Ok(settled) if settled.verdict == Verdict::ExceedsCapacity => {
                    return Err(exceeds(self, operation.count(), settled.capacity));
                }
                Ok(settled) => return Ok(settled),
            }
        }
        // Its record was read a moment ago, from another shard or before it was lost.
        Err(Error::LimitLost { limit: self.name().to_string() })
    }

    /// Sends a command that the pipeline did not carry out. `elsewhere`: its bucket is on another node.
    pub(crate) async fn send(
        &self,
        command: Command,
        elsewhere: bool,
        handle: &Handle,
    ) -> Result<Reply, Error> {
        let mut connection = handle.shared().connection();
        match command {
            Command::Settle { operation, may_count, in_doubt } => {
                self.settle(operation, may_count, in_doubt, handle).await.map(Reply::Settled)
            }
            Command::Decrement { by, .. } if elsewhere => {
                let published = self.read(handle).await?;
                let state = published.locate(self).state();
                match scripts::decrement(&mut connection, &state, by).await {
                    Err(error) if scripts::is_not_a_counter(&error) => Ok(Reply::NotCounting),
                    left => left.map(Reply::Left).map_err(Error::redis),
                }
            }
            Command::FirstTake { count, full_at: 0 } if elsewhere => {
                let published = self.read(handle).await?;
                let (state, pace) = (published.locate(self).state(), published.terms.pace);
                let first =
                    scripts::first_take(&mut connection, &state, published.terms_id, pace, count).await;
                first.map(Reply::First).map_err(Error::redis)
            }
            // Nothing was done. A settle follows, and finds the bucket where it is.
            Command::Decrement { .. } | Command::TakeAtRest { .. } | Command::TakeInWindow { .. } => {
                Ok(Reply::NotCounting)
            }
            Command::FirstTake { .. } => Ok(Reply::First(false)),
        }
    }
}

// === impl Handle ===

impl Handle {
    /// The result of `call`, or an error when the deadline has passed.
    pub(crate) fn within_deadline<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> {
        let (clock, deadline) = (&self.shared().clock, self.shared().deadline);
        let late = move |_| Err(Error::DeadlineExceeded { deadline });
        // An async function would hold `call` twice.
        clock.timeout(deadline, call).map(move |result| result.unwrap_or_else(late))
    }
}

pub(crate) fn unknown(entry: &BucketEntry) -> Error {
    Error::UnknownLimit { limit: entry.name().to_string() }
}

/// The error of an operation on tokens of a limit with permits.
pub(crate) fn not_tokens(entry: &BucketEntry) -> Error {
    Error::NotTokens { limit: entry.name().to_string() }
}

pub(crate) fn exceeds(entry: &BucketEntry, count: u64, capacity: u64) -> Error {
    if entry.limit().last().is_some_and(|published| published.limit.algorithm.has_permits()) {
        return not_tokens(entry);
    }
    Error::ExceedsCapacity { limit: entry.name().to_string(), count, capacity }
}
