//! One bucket, and what can be done with it.

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use topup_wire::{
    bucket::Operation,
    limit::{MAX_TOKENS, Mode},
    reply::{Settled, Verdict},
    scripts::PutIn,
};

use crate::{
    decision::Decision,
    error::Error,
    machine::{Denial, Event, Micros, PutBack},
    shell::{BucketEntry, Handle, LimitHandle, clock::micros, exceeds},
};

/// The bucket of a limit, or of one key of a keyed limit. From [`Client::limit`](crate::Client::limit); cheap to make, anew or once.
#[derive(Clone, Debug)]
pub struct Bucket {
    handle: Handle,
    named: Named,
}

/// What a bucket has been named by.
#[derive(Clone, Debug)]
enum Named {
    /// A limit; its one bucket is looked up when it is needed.
    Limit(Arc<LimitHandle>, OnceLock<Arc<BucketEntry>>),
    /// A bucket itself.
    Bucket(Arc<BucketEntry>),
    /// A text that names nothing.
    Nothing(Box<Error>),
}

// === impl Bucket ===

impl Bucket {
    pub(crate) fn new(handle: Handle, limit: &str) -> Self {
        let named = match limit.parse() {
            Ok(name) => Named::Limit(handle.shared().limits.get(name), OnceLock::new()),
            Err(error) => Named::Nothing(Box::new(Error::InvalidName(error))),
        };
        Self { handle, named }
    }

    /// The bucket of `entry`.
    pub(crate) fn of(handle: &Handle, entry: &Arc<BucketEntry>) -> Self {
        Self { handle: handle.clone(), named: Named::Bucket(entry.clone()) }
    }

    /// The bucket of `key`: any UTF-8 text of 1 to 256 bytes. For keyed limits only.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        let handle = self.handle.clone();
        let limit = match &self.named {
            Named::Limit(limit, _) => limit,
            Named::Bucket(entry) => entry.limit(),
            Named::Nothing(_) => return self.clone(),
        };
        let shared = handle.shared();
        let named = match shared.buckets.get(&shared.limits, limit, Some(key.as_ref())) {
            Ok(entry) => Named::Bucket(entry),
            Err(error) => Named::Nothing(error.into()),
        };
        Self { handle, named }
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
        let entry = self.entry()?;
        if count == 1 && entry.may_tell() {
            // Whoever asks again and again without waiting for Redis lets others run now and then all the same. Before
            // anything is spent: who leaves now has taken nothing.
            tokio::task::consume_budget().await;
            if let Some(decision) = entry.at_once(&self.handle) {
                return Ok(self.passed(entry, 1, decision));
            }
        }
        self.taken(entry, count, None).await
    }

    /// Takes tokens, waiting for them until `until`.
    async fn taken(
        &self,
        entry: &Arc<BucketEntry>,
        count: u64,
        until: Option<Micros>,
    ) -> Result<Decision, Error> {
        let shared = self.handle.shared();
        let mut began = None;
        let published = match entry.published(&self.handle) {
            Some(published) if published.limit.keyed == entry.key().is_some() => published,
            _ => {
                began = Some(shared.clock.now());
                // Boxed: very many tasks may have a take under way.
                match Box::pin(self.within_deadline(entry.read(&self.handle))).await {
                    Ok(published) => published,
                    Err(error) => return self.decided(entry, count, Err(error)),
                }
            }
        };
        if let Some(free) = published.free(entry.key()) {
            return Ok(self.passed(entry, count, free));
        }
        if count > published.terms.capacity {
            return self.decided(entry, count, Err(exceeds(entry, count, published.terms.capacity)));
        }
        let pending = entry.take(count, until, &published, &self.handle);
        drop(published);
        let decision = match began.filter(|_| until.is_none()) {
            None => pending.await,
            // What reading the limit took is of the take's own time.
            Some(began) => {
                let left = shared.deadline.saturating_sub(Duration::from_micros(shared.clock.now() - began));
                let late = Err(Error::DeadlineExceeded { deadline: shared.deadline });
                Box::pin(tokio::time::timeout(left, pending)).await.unwrap_or(late)
            }
        };
        self.decided(entry, count, decision)
    }

    /// Takes one token if that can be decided without Redis: from tokens taken ahead, where the limit has a `lease`, or
    /// because a denial is remembered. `None` when Redis has to be asked: [`Bucket::take`] does.
    ///
    /// Where the limit has a lease and nothing is left of it, the next one is asked for meanwhile.
    pub fn try_take(&self) -> Option<Decision> {
        let entry = self.entry().ok()?;
        let published = entry.published(&self.handle);
        let decision = entry.at_once(&self.handle).or_else(|| published.as_ref()?.free(entry.key()));
        let decision =
            decision.or_else(|| entry.denial(1, published.as_ref()?, &self.handle).map(Decision::from));
        match (&decision, &published) {
            (None, Some(published)) if published.limit.lease.is_some() => {
                entry.step(Event::TakeAhead, &self.handle, None);
            }
            (None, None) => entry.search(&self.handle),
            _ => {}
        }
        decision.map(|decision| self.passed(entry, 1, decision))
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
        let entry = self.entry()?;
        if longest.is_zero() {
            return self.take(count).await;
        }
        let shared = self.handle.shared();
        let until = shared.clock.now().saturating_add(micros(longest));
        let mut taken = pin!(self.taken(entry, count, Some(until)));
        if let Ok(told) = tokio::time::timeout(longest, &mut taken).await {
            return told;
        }
        // Out of patience: the denial that is known by now; the answer that is under way, where none is.
        let published = entry.published(&self.handle);
        let denial = published.and_then(|published| entry.last_denial(count, &published, &self.handle));
        let told = match denial {
            Some(denial) => Ok(denial.into()),
            None => {
                let rest = shared.deadline.saturating_sub(longest);
                let deadline = shared.deadline.max(longest);
                match tokio::time::timeout(rest, taken).await {
                    Ok(told) => return told,
                    Err(_) => Err(Error::DeadlineExceeded { deadline }),
                }
            }
        };
        self.decided(entry, count, told)
    }

    /// What a take of one token would be told. Changes nothing.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn peek(&self) -> Result<Decision, Error> {
        let entry = self.entry()?;
        let before = entry.in_hand(&self.handle);
        let settled = self.within_deadline(self.settle(Operation::Peek(1))).await;
        // What this worker has in hand is as good as in the bucket; what has come to hand meanwhile may be in both.
        let with_hand = |settled: Settled| {
            let in_hand = before.min(entry.in_hand(&self.handle));
            let tokens = settled.tokens.saturating_add(in_hand).min(settled.capacity);
            let verdict = if tokens > 0 { Verdict::Allowed } else { settled.verdict };
            decision(&Settled { tokens, verdict, ..settled })
        };
        self.judged(entry, settled.map(with_hand))
    }

    /// Gives `count` tokens back, as far as the bucket holds them: the tokens in it after.
    ///
    /// Where other workers take from the bucket too, what they have in hand is spent or gone first: that takes some ms,
    /// and of a limit with a `lease` as long as a lease lasts.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn refund(&self, count: u64) -> Result<u64, Error> {
        checked(count)?;
        self.put_in(Some(count)).await
    }

    /// Fills the bucket. As [`Bucket::refund`], it waits for what other workers have in hand.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub async fn reset(&self) -> Result<(), Error> {
        self.put_in(None).await.map(drop)
    }

    /// Puts tokens into the bucket, or fills it: tokens in it after.
    async fn put_in(&self, tokens: Option<u64>) -> Result<u64, Error> {
        let entry = self.entry()?;
        let published = self.within_deadline(entry.read(&self.handle)).await?;
        let capacity = published.terms.capacity;
        if published.mode(entry.key()) == Mode::Off && tokens.is_some() {
            return Ok(capacity);
        }
        // What this worker has in hand goes back with them; of a bucket that is filled, it is gone.
        let outcome = entry.step(Event::PutsBack(tokens.unwrap_or(u64::MAX)), &self.handle, None);
        let PutBack { tokens: in_hand, full_at, .. } =
            outcome.put_back.unwrap_or(PutBack { tokens: 0, full_at: None, or_lost: false });
        let request = PutIn {
            tokens: tokens.map(|tokens| tokens.saturating_add(in_hand)),
            full_at,
            or_lost: false,
            in_hand_for: published.limit.in_hand_for(),
        };
        let shared = self.handle.shared();
        let (location, mut connection) = (published.locate(entry.key()), shared.connection());
        let patience = shared.deadline.saturating_add(request.in_hand_for);
        let put = tokio::time::timeout(patience, location.put_in(&mut connection, request)).await;
        entry.step(Event::Changed, &self.handle, None);
        let settled = put.map_err(|_| Error::DeadlineExceeded { deadline: shared.deadline })??;
        if settled.verdict != Verdict::Unknown {
            return Ok(settled.tokens);
        }
        // Removed, or changed in kind since it was read: asked once more, as its own record says.
        entry.limit().invalidate();
        let operation = tokens.map_or(Operation::Reset, Operation::Refund);
        Ok(self.within_deadline(self.settle(operation)).await?.tokens)
    }

    /// Sends an operation by itself, in whatever way the limit decides.
    pub(crate) async fn settle(&self, operation: Operation) -> Result<Settled, Error> {
        self.entry()?.settle(operation, false, 0, &self.handle).await
    }

    pub(crate) async fn within_deadline<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.handle.within_deadline(call).await
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What this worker has of the bucket.
    pub(crate) fn entry(&self) -> Result<&Arc<BucketEntry>, Error> {
        match &self.named {
            Named::Bucket(entry) => Ok(entry),
            Named::Nothing(error) => Err(Error::clone(error)),
            Named::Limit(limit, found) => match found.get() {
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

pub(crate) fn checked(count: u64) -> Result<(), Error> {
    if count == 0 || count > MAX_TOKENS { Err(Error::InvalidCount { count }) } else { Ok(()) }
}

pub(crate) fn decision(settled: &Settled) -> Decision {
    let Settled { tokens, capacity, wait, verdict, .. } = *settled;
    match verdict {
        Verdict::Allowed => Decision::Allowed { remaining: tokens, capacity },
        _ => Denial { tokens, capacity, wait }.into(),
    }
}
