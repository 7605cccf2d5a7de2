//! One bucket, and what can be done with it.

use std::time::Duration;

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
    memory::{Advice, Asked},
    published::Published,
};

/// The bucket of a limit, or of one key of a keyed limit. From [`Client::limit`]; cheap to make, anew or once.
#[derive(Clone, Debug)]
pub struct Bucket {
    client: Client,
    limit: String,
    key: Option<String>,
}

// === impl Bucket ===

impl Bucket {
    pub(crate) fn new(client: Client, limit: String) -> Self {
        Self { client, limit, key: None }
    }

    /// The bucket of `key`: any UTF-8 text of 1 to 256 bytes. For keyed limits only.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Takes `count` tokens, all or nothing.
    ///
    /// # Errors
    /// [`Error::UnknownLimit`] until a daemon has published the limit; [`Error::ExceedsCapacity`] when the bucket
    /// never holds so many; a wrong name, key or count; a transient error when Redis gives no answer in time. Nothing is
    /// ever retried: a take that failed may have been carried out.
    pub async fn take(&self, count: u64) -> Result<Decision, Error> {
        checked(count)?;
        self.within_deadline(self.decide(count)).await
    }

    /// Takes `count` tokens, waiting for them for at most `longest`.
    ///
    /// Denied at once when they cannot be there in time.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn wait(&self, count: u64, longest: Duration) -> Result<Decision, Error> {
        let clock = self.client.shared().clock;
        let until = clock.now().saturating_add(micros(longest));
        loop {
            let decision = self.take(count).await?;
            let Some(retry_after) = decision.retry_after() else { return Ok(decision) };
            if clock.now().saturating_add(micros(retry_after)) > until {
                return Ok(decision);
            }
            // A change of the limit may end a long denial early.
            tokio::time::sleep(retry_after.min(LONGEST_NAP)).await;
        }
    }

    /// What a take of one token would be told. Changes nothing.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn peek(&self) -> Result<Decision, Error> {
        let settled = self.within_deadline(self.settle(Operation::Peek(1))).await?;
        Ok(decision(&settled))
    }

    /// Gives `count` tokens back, as far as the bucket holds them: the tokens in it after.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn refund(&self, count: u64) -> Result<u64, Error> {
        checked(count)?;
        Ok(self.within_deadline(self.settle(Operation::Refund(count))).await?.tokens)
    }

    /// Fills the bucket.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn reset(&self) -> Result<(), Error> {
        self.within_deadline(self.settle(Operation::Reset)).await.map(drop)
    }

    /// The way of a take: from memory, by a bare `DECR`, or by script.
    async fn decide(&self, count: u64) -> Result<Decision, Error> {
        let shared = self.client.shared();
        let published = shared.published(&self.limit).await?;
        let (keys, member) = published.place(self.key.as_deref())?;
        let counter = keys.counter(member);
        let asked = Asked { count, sent: shared.clock.now(), pace: published.pace, epoch: published.epoch };
        match shared.memory.advise(&counter, asked) {
            Advice::Deny(denial) => {
                let retry_after = Duration::from_micros(denial.wait);
                return Ok(Decision::Denied {
                    remaining: denial.tokens,
                    capacity: denial.capacity,
                    retry_after,
                });
            }
            Advice::Decrement { capacity } if shared.watch.daemon_alive() && is_counter(&published) => {
                let left = scripts::decrement(&mut shared.connection(), &counter).await?;
                if let Ok(remaining) = u64::try_from(left) {
                    shared.memory.taken(&counter, remaining, asked);
                    return Ok(Decision::Allowed { remaining, capacity });
                }
            }
            Advice::Decrement { .. } | Advice::Settle => {}
        }
        Ok(decision(&self.settle(Operation::Take(count)).await?))
    }

    /// Asks by script, and remembers the answer.
    async fn settle(&self, operation: Operation) -> Result<Settled, Error> {
        let shared = self.client.shared();
        let mut unknown = 0;
        loop {
            let published = shared.published(&self.limit).await?;
            let (keys, member) = published.place(self.key.as_deref())?;
            let sent = shared.clock.now();
            let connection = &mut shared.connection();
            // A change of kind reaches one shard after another: this one may not be yet what the first, which is read,
            // says; and may be by the time it is asked as what it was.
            let said = published.limit.algorithm;
            let settled = match if unknown == 2 { other(said) } else { said } {
                Algorithm::TokenBucket => scripts::settle(connection, keys, member, operation).await?,
                Algorithm::LazyTokenBucket => scripts::lazy(connection, keys, member, operation).await?,
            };
            let counter = keys.counter(member);
            match (settled.verdict, operation) {
                (Verdict::Unknown, _) => {
                    // Removed, or changed in kind since we read it. Nothing was done: asking again is safe.
                    shared.forget_limit(&self.limit);
                    unknown += 1;
                    if unknown == MOST_UNKNOWN {
                        return Err(Error::UnknownLimit { limit: self.limit.clone() });
                    }
                }
                (Verdict::ExceedsCapacity, Operation::Take(count)) => {
                    let (limit, capacity) = (self.limit.clone(), settled.capacity);
                    return Err(Error::ExceedsCapacity { limit, count, capacity });
                }
                (_, Operation::Take(count) | Operation::Share(count)) => {
                    let asked = Asked { count, sent, pace: published.pace, epoch: published.epoch };
                    shared.memory.settled(&counter, &settled, asked);
                    return Ok(settled);
                }
                (_, Operation::Refund(_) | Operation::Reset) => {
                    shared.memory.forget(&counter);
                    return Ok(settled);
                }
                (_, Operation::Peek(_)) => return Ok(settled),
            }
        }
    }

    async fn within_deadline<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let deadline = self.client.shared().deadline;
        tokio::time::timeout(deadline, call).await.unwrap_or(Err(Error::DeadlineExceeded { deadline }))
    }
}

/// A limit that is still unknown when asked for the fourth time is: see [`Bucket::settle`].
const MOST_UNKNOWN: u32 = 4;
/// The longest a waiter sleeps before it looks again.
const LONGEST_NAP: Duration = Duration::from_millis(500);

/// Whether the limit's buckets are counters, so that `DECR` takes from them.
fn is_counter(published: &Published) -> bool {
    published.limit.algorithm == Algorithm::TokenBucket
}

/// What a limit is in a shard where it is not `algorithm`.
const fn other(algorithm: Algorithm) -> Algorithm {
    match algorithm {
        Algorithm::TokenBucket => Algorithm::LazyTokenBucket,
        Algorithm::LazyTokenBucket => Algorithm::TokenBucket,
    }
}

fn checked(count: u64) -> Result<(), Error> {
    if count == 0 || count > MAX_TOKENS { Err(Error::InvalidCount { count }) } else { Ok(()) }
}

fn decision(settled: &Settled) -> Decision {
    let Settled { tokens: remaining, capacity, .. } = *settled;
    match settled.verdict {
        Verdict::Allowed => Decision::Allowed { remaining, capacity },
        _ => Decision::Denied { remaining, capacity, retry_after: Duration::from_micros(settled.wait) },
    }
}
