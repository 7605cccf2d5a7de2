//! A bucket, and the operations on it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use topup_wire::{
    bucket::Operation,
    limit::{MAX_TOKENS, OnOutage},
    reply::{Settled, Verdict},
};

use crate::{
    decision::Decision,
    error::{Answered, Error},
    machine::{Denial, Micros},
    outage::Policies,
    place::plan_changed,
    shell::{BucketEntry, Handle, LimitHandle, exceeds},
};

/// The bucket of an unkeyed limit, or of one key of a keyed limit: from [`Client::limit`](crate::Client::limit).
///
/// Cheap to make for each take, and to keep and clone. An invalid name is no error before the first operation.
///
/// # Examples
/// ```no_run
/// # async fn example(topup: topup::Client) -> Result<(), topup::Error> {
/// let bucket = topup.limit("user").key("alice");
/// if bucket.take(1).await?.is_allowed() {
///     println!("{} tokens left", bucket.peek().await?.remaining());
///     bucket.refund(1).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Bucket {
    handle: Handle,
    target: Target,
    policies: Policies,
}

/// The cache entry of a bucket, or the way to it.
#[derive(Clone, Debug)]
enum Target {
    /// A limit. The entry of its one bucket is looked up at the first operation.
    Limit(Arc<LimitHandle>, OnceLock<Arc<BucketEntry>>),
    Bucket(Arc<BucketEntry>),
    /// An invalid name or key.
    Invalid(Box<Error>),
}

/// The answer to an operation on a key: the bucket that it is for, or a decision without one.
pub(crate) enum Here {
    Bucket(Bucket),
    Decided(Decision),
}

// === impl Bucket ===

impl Bucket {
    pub(crate) fn new(handle: Handle, limit: &str) -> Self {
        let target = match limit.parse() {
            Ok(name) => Target::Limit(handle.shared().limits.get(name), OnceLock::new()),
            Err(error) => Target::Invalid(Box::new(Error::InvalidName(error))),
        };
        Self { handle, target, policies: Policies::default() }
    }

    /// The bucket of `entry`.
    pub(crate) fn of(handle: &Handle, entry: &Arc<BucketEntry>) -> Self {
        Self { handle: handle.clone(), target: Target::Bucket(entry.clone()), policies: Policies::default() }
    }

    /// The bucket of `key`, any UTF-8 text of 1 to 256 bytes. For keyed limits only.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let handle = self.handle.clone();
        let limit = match &self.target {
            Target::Limit(limit, _) => limit,
            Target::Bucket(entry) => entry.limit(),
            Target::Invalid(_) => return self.clone(),
        };
        let shared = handle.shared();
        let target = match shared.buckets.get(&shared.limits, limit, Some(key.as_ref())) {
            Ok(entry) => Target::Bucket(entry),
            Err(error) => Target::Invalid(error.into()),
        };
        Self { handle, target, policies: self.policies }
    }

    /// Takes `count` tokens, all or nothing. `count` is 1 to 2^53.
    ///
    /// Concurrent takes of one token share one command to Redis. They are served in the order of the calls.
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

    /// The decision that a take of one token would get now. Changes nothing.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`].
    pub async fn peek(&self) -> Result<Decision, Error> {
        match self.here().await {
            Ok(Here::Bucket(bucket)) => bucket.peek_here().await,
            Ok(Here::Decided(decision)) => self.apply_mode(self.entry()?, Ok(decision)),
            Err(error) => self.apply_mode(self.entry()?, Err(error)),
        }
    }

    async fn peek_here(&self) -> Result<Decision, Error> {
        let entry = self.entry()?;
        let before = entry.prefetched(&self.handle);
        let settled = self.handle.within_deadline(self.settle(Operation::Peek(1))).await;
        // Prefetched tokens of this worker count as tokens of the bucket. Tokens that came meanwhile may be in both.
        let with_prefetched = |settled: Settled| {
            let prefetched = before.min(entry.prefetched(&self.handle));
            let tokens = settled.tokens.saturating_add(prefetched).min(settled.capacity);
            let verdict = if tokens > 0 { Verdict::Allowed } else { settled.verdict };
            decision(&Settled { tokens, verdict, ..settled })
        };
        let decision = self.apply_mode(entry, settled.map(with_prefetched))?;
        Ok(self
            .paused_decision(1)
            .await
            .map_or(decision, |paused| paused.with_remaining(decision.remaining())))
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
                let left = shared.deadline.saturating_sub(Duration::from_micros(shared.clock.now() - began));
                let late = Err(Error::DeadlineExceeded { deadline: shared.deadline });
                Box::pin(shared.clock.timeout(left, pending)).await.unwrap_or(late)
            }
        };
        if let Err(Error::PlanChanged { .. }) = result {
            return result;
        }
        self.conclude(entry, count, result)
    }

    /// Sends `operation` in a command of its own, to the script of the limit's algorithm.
    pub(crate) async fn settle(&self, operation: Operation) -> Result<Settled, Error> {
        let entry = self.entry()?;
        self.handle.check_circuit(entry)?;
        entry.settle(operation, false, 0, &self.handle).await
    }

    pub(crate) const fn policies(&self) -> Policies {
        self.policies
    }

    pub(crate) fn with_policies(self, policies: Policies) -> Self {
        if policies.call == Some(OnOutage::Local) {
            self.handle.shared().control.use_local();
        }
        Self { policies, ..self }
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The entry of the bucket in the bucket cache.
    #[inline]
    pub(crate) fn entry(&self) -> Result<&Arc<BucketEntry>, Error> {
        match &self.target {
            Target::Bucket(entry) => Ok(entry),
            Target::Invalid(error) => Err(Error::clone(error)),
            Target::Limit(limit, found) => match found.get() {
                Some(entry) => Ok(entry),
                None => {
                    let shared = self.handle.shared();
                    let entry = shared.buckets.get(&shared.limits, limit, None)?;
                    Ok(found.get_or_init(|| entry))
                }
            },
        }
    }
}

#[inline]
pub(crate) fn checked(count: u64) -> Result<(), Error> {
    if count == 0 || count > MAX_TOKENS { Err(Error::InvalidCount { count }) } else { Ok(()) }
}

pub(crate) fn decision(settled: &Settled) -> Decision {
    match settled.verdict {
        Verdict::Allowed => Decision::Allowed { remaining: settled.tokens, capacity: settled.capacity },
        _ => Denial::from(settled).into(),
    }
}
