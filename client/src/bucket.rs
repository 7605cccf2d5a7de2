//! One bucket, and what can be done with it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use topup_wire::{
    bucket::Operation,
    limit::{Algorithm, MAX_TOKENS},
    reply::{Settled, Verdict},
    scripts,
};

use crate::{
    client::Client,
    clock::micros,
    decision::Decision,
    error::Error,
    known::{Asked, Denial},
    published::Place,
    slot::{Slot, Told},
    slots::HashedName,
};

/// The bucket of a limit, or of one key of a keyed limit. From [`Client::limit`]; cheap to make, anew or once.
#[derive(Clone, Debug)]
pub struct Bucket {
    client: Client,
    named: Named,
}

/// What a bucket has been named by.
#[derive(Clone, Debug)]
enum Named {
    /// A limit; the one bucket of it is looked up when it is needed.
    Limit(Arc<HashedName>, OnceLock<Arc<Slot>>),
    /// A bucket itself.
    Slot(Arc<Slot>),
    /// A text that names nothing.
    Nothing(Box<Error>),
}

// === impl Bucket ===

impl Bucket {
    pub(crate) fn new(client: Client, limit: &str) -> Self {
        let named = match limit.parse() {
            Ok(name) => Named::Limit(client.shared().slots.name(name), OnceLock::new()),
            Err(error) => Named::Nothing(Box::new(Error::InvalidName(error))),
        };
        Self { client, named }
    }

    /// The bucket of `slot`.
    pub(crate) fn of(client: &Client, slot: &Arc<Slot>) -> Self {
        Self { client: client.clone(), named: Named::Slot(slot.clone()) }
    }

    /// The bucket of `key`: any UTF-8 text of 1 to 256 bytes. For keyed limits only.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let client = self.client.clone();
        let limit = match &self.named {
            Named::Limit(limit, _) => limit,
            Named::Slot(slot) => slot.hashed_limit(),
            Named::Nothing(_) => return self.clone(),
        };
        let named = match client.shared().slots.get(limit, Some(key.as_ref())) {
            Ok(slot) => Named::Slot(slot),
            Err(error) => Named::Nothing(error.into()),
        };
        Self { client, named }
    }

    /// Takes `count` tokens, all or nothing.
    ///
    /// Takes of one token that are made while another is under way share one command, each in its turn.
    ///
    /// # Errors
    /// [`Error::UnknownLimit`] until a daemon has published the limit; [`Error::ExceedsCapacity`] when the bucket
    /// never holds so many; a wrong name, key or count; a transient error when Redis gives no answer in time. Nothing is
    /// ever retried: a take that failed may have been carried out.
    pub async fn take(&self, count: u64) -> Result<Decision, Error> {
        checked(count)?;
        let slot = self.slot()?;
        if count > 1 {
            // Boxed, as is the reading of the limit: very many tasks may have a take of one token under way.
            return self.decided(slot, count, Box::pin(self.take_several(slot, count)).await);
        }
        if slot.may_know() {
            // Whoever asks again and again, and is never made to wait for Redis, lets others run now and then all the same.
            // Before anything is spent: who leaves now has taken nothing.
            tokio::task::consume_budget().await;
            if let Some(decision) = slot.at_once(&self.client) {
                return Ok(self.passed(slot, 1, decision));
            }
        }
        match self.told(|| slot.take(&self.client)).await {
            Ok(Told::Now(decision)) => Ok(self.passed(slot, 1, decision)),
            Ok(Told::Later(pending)) => self.decided(slot, 1, pending.await),
            Ok(Told::Misplaced) => Err(unknown(slot)),
            Err(error) => self.decided(slot, 1, Err(error)),
        }
    }

    async fn take_several(&self, slot: &Arc<Slot>, count: u64) -> Result<Decision, Error> {
        if let Some(decision) = slot.remembered(count, &self.client) {
            return Ok(decision);
        }
        let mut settled = self.within_deadline(self.settle(Operation::Take(count))).await?;
        // What this worker has in hand for others may be what is missing.
        if settled.verdict == Verdict::Denied && slot.rest().await {
            settled = self.within_deadline(self.settle(Operation::Take(count))).await?;
        }
        Ok(decision(&settled))
    }

    /// Takes one token if that can be decided without Redis: from tokens taken ahead, where the limit has a `lease`, or
    /// because a denial is remembered. `None` when Redis has to be asked: [`Bucket::take`] does.
    ///
    /// Where the limit has a lease and nothing is left of it, the next one is asked for meanwhile.
    pub fn try_take(&self) -> Option<Decision> {
        let slot = self.slot().ok()?;
        let told = if slot.may_know() { slot.at_once(&self.client) } else { None };
        let told = told.or_else(|| slot.of_last(&self.client));
        let decision = told.or_else(|| slot.remembered(1, &self.client));
        if decision.is_none() {
            slot.take_ahead(&self.client);
        }
        decision.map(|decision| self.passed(slot, 1, decision))
    }

    /// Takes `count` tokens, waiting for them for at most `longest`.
    ///
    /// Whoever has waited longer in this process is served first; denied at once when it cannot be this one's turn in
    /// time. However many wait, Redis is asked about once for each token that comes.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn wait(&self, count: u64, longest: Duration) -> Result<Decision, Error> {
        checked(count)?;
        let slot = self.slot()?;
        let until = self.client.shared().clock.now().saturating_add(micros(longest));
        let pending = match self.told(|| slot.wait(count, until, &self.client)).await {
            Ok(Told::Later(pending)) => pending,
            Ok(Told::Now(decision)) => return Ok(self.passed(slot, count, decision)),
            Ok(Told::Misplaced) => return Err(unknown(slot)),
            Err(error) => return self.decided(slot, count, Err(error)),
        };
        match tokio::time::timeout(longest, pending).await {
            Ok(told) => self.decided(slot, count, told),
            // Out of patience; what it would be told now is not worth less.
            Err(_) => self.take(count).await,
        }
    }

    /// What a take of one token would be told. Changes nothing.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn peek(&self) -> Result<Decision, Error> {
        let slot = self.slot()?;
        slot.rest().await;
        let settled = self.within_deadline(self.settle(Operation::Peek(1))).await;
        self.judged(slot, settled.map(|settled| decision(&settled)))
    }

    /// Gives `count` tokens back, as far as the bucket holds them: the tokens in it after.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn refund(&self, count: u64) -> Result<u64, Error> {
        checked(count)?;
        let refunded = self.within_deadline(self.settle(Operation::Refund(count))).await?;
        self.slot()?.look_again(&self.client);
        Ok(refunded.tokens)
    }

    /// Fills the bucket.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn reset(&self) -> Result<(), Error> {
        self.slot()?.disperse();
        self.within_deadline(self.settle(Operation::Reset)).await?;
        self.slot()?.look_again(&self.client);
        Ok(())
    }

    /// Asks by script, and remembers the answer.
    pub(crate) async fn settle(&self, operation: Operation) -> Result<Settled, Error> {
        let (shared, slot) = (self.client.shared(), self.slot()?);
        let mut refusals = 0;
        loop {
            let place = self.place(slot).await?;
            if let Some(free) = place.free_settled(operation) {
                return Ok(free);
            }
            let count = match operation {
                Operation::Take(count) | Operation::Peek(count) | Operation::Reserve { count, .. } => count,
                _ => 1,
            };
            let (terms, epoch) = (place.published.terms, place.published.epoch);
            let asked = Asked { count, sent: shared.clock.now(), terms, epoch };
            let (connection, keys, member) = (&mut shared.connection(), place.keys(), place.member());
            // A change of kind reaches one shard after another: this one may not be yet, or no longer, what the first,
            // which is read, says. Its own record does.
            let own = if refusals > 0 { scripts::algorithm_of(connection, keys).await? } else { None };
            let algorithm = own.unwrap_or(place.published.limit.algorithm);
            if matches!(operation, Operation::Reserve { .. }) && algorithm != Algorithm::LeakyBucket {
                return Err(Error::NoQueue {
                    limit: slot.limit().to_string(),
                    algorithm: algorithm.as_str(),
                });
            }
            let settled = scripts::operate(connection, algorithm, keys, member, operation, false, 0).await?;
            match settled.verdict {
                Verdict::Unknown => {
                    // Removed, or changed in kind since we read it. Nothing was done: asking again is safe.
                    self.lost(slot);
                    refusals += 1;
                    if refusals == MOST_UNKNOWN {
                        return Err(unknown(slot));
                    }
                }
                Verdict::ExceedsCapacity => return Err(exceeds(slot, count, settled.capacity)),
                _ => {
                    slot.learn(&settled, operation, asked, shared.clock.now());
                    return Ok(settled);
                }
            }
        }
    }

    /// Takes `by` tokens unseen, as a command in the lane does: the tokens left.
    pub(crate) async fn decrement(&self, by: u64) -> Result<i64, Error> {
        let place = self.place(self.slot()?).await?;
        Ok(place.decrement(&mut self.client.shared().connection(), by).await?)
    }

    /// Reads anew where the bucket is when that is next asked for: it is not there.
    pub(crate) fn lost(&self, slot: &Slot) {
        self.client.shared().forget_limit(slot.limit());
        slot.displace();
    }

    /// Finds out where the bucket is, for the next who asks.
    pub(crate) async fn search(&self) {
        if let Ok(slot) = self.slot() {
            // An error is for whoever waits for an answer, and nobody does.
            let _ = self.within_deadline(self.place(slot)).await;
            slot.searched();
        }
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// What this worker has of the bucket.
    pub(crate) fn slot(&self) -> Result<&Arc<Slot>, Error> {
        match &self.named {
            Named::Slot(slot) => Ok(slot),
            Named::Nothing(error) => Err(Error::clone(error)),
            Named::Limit(limit, found) => match found.get() {
                Some(slot) => Ok(slot),
                None => {
                    let slot = self.client.shared().slots.get(limit, None)?;
                    Ok(found.get_or_init(|| slot))
                }
            },
        }
    }

    /// Where the bucket is, by what is published now.
    pub(crate) async fn place(&self, slot: &Slot) -> Result<Place, Error> {
        if let Some(place) = slot.place(&self.client) {
            return Ok(place);
        }
        let published = self.client.shared().published(slot.limit()).await?;
        let place = Place::new(published, slot.key())?;
        slot.put(place.clone());
        Ok(place)
    }

    /// What `ask` is told once it is known where the bucket is.
    async fn told<'b>(&self, mut ask: impl FnMut() -> Told<'b>) -> Result<Told<'b>, Error> {
        // Published again and again while it is read, it is unknown in the end.
        for _ in 1..MOST_UNKNOWN {
            match ask() {
                Told::Misplaced => drop(Box::pin(self.within_deadline(self.place(self.slot()?))).await?),
                told => return Ok(told),
            }
        }
        Ok(ask())
    }

    pub(crate) async fn within_deadline<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let deadline = self.client.shared().deadline;
        tokio::time::timeout(deadline, call).await.unwrap_or(Err(Error::DeadlineExceeded { deadline }))
    }
}

/// A limit that is still unknown when asked for the fourth time is: see [`Bucket::settle`].
const MOST_UNKNOWN: u32 = 4;

pub(crate) fn unknown(slot: &Slot) -> Error {
    Error::UnknownLimit { limit: slot.limit().to_string() }
}

pub(crate) fn exceeds(slot: &Slot, count: u64, capacity: u64) -> Error {
    Error::ExceedsCapacity { limit: slot.limit().to_string(), count, capacity }
}

pub(crate) fn checked(count: u64) -> Result<(), Error> {
    if count == 0 || count > MAX_TOKENS { Err(Error::InvalidCount { count }) } else { Ok(()) }
}

pub(crate) fn decision(settled: &Settled) -> Decision {
    let Settled { tokens: remaining, capacity, .. } = *settled;
    match settled.verdict {
        Verdict::Allowed => Decision::Allowed { remaining, capacity },
        _ => Denial::from(settled).into(),
    }
}
