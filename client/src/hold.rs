//! Holds: tokens whose number is known only after their use, and that are taken before at an estimate.

use std::{
    hash::BuildHasher,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use topup_wire::limit::{MAX_TOKENS, Mode, OnAbandon, OnOutage};

use crate::{
    bucket::{Bucket, decision},
    decision::Decision,
    error::Error,
    machine::{Event, Micros},
    multi_decision::{LimitDecision, MultiDecision},
    shell::{
        BucketEntry, Published,
        clock::micros,
        holds::{HoldRef, HoldRequest},
    },
};

/// Redis remembers a settled hold for 60 s. An attempt that begins later than this after the first one is refused.
const SETTLES_WITHIN: Duration = Duration::from_secs(45);
/// Between two attempts to settle a hold.
const RETRY: Duration = Duration::from_millis(20);

/// The beginning of all IDs of this process, and the number of the next one.
static IDS: LazyLock<(u64, AtomicU64)> = LazyLock::new(|| {
    let random = std::hash::RandomState::new().hash_one(std::process::id());
    (random, AtomicU64::new(0))
});

/// Tokens that were taken at an estimate, until [`Hold::settle`] says how many were used: from
/// [`Bucket::reserve_cost`].
///
/// A hold that is dropped unsettled is abandoned. Its limit's `on_abandon` says what becomes of the tokens: `charge`
/// leaves them taken, `refund` puts them back at once. The same holds for a process that dies, after the limit's
/// `hold_ttl`.
#[must_use = "a hold that is dropped is abandoned"]
#[derive(Debug)]
pub struct Hold {
    bucket: Bucket,
    entry: Arc<BucketEntry>,
    pub(crate) decision: Decision,
    estimate: u64,
    id: String,
    is_remembered: bool,
    /// The key is exempt: it costs nothing.
    pub(crate) is_exempt: bool,
    /// When it was first settled, by the worker's clock, and the tokens used.
    first_try: Option<(Micros, u64)>,
    settlement: Option<Settlement>,
}

/// The result of [`Hold::settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// Tokens that the hold has cost in all: those used, without `uncharged`.
    pub charged: u64,
    /// Tokens used that were not charged: the bucket would have been in deeper debt than the limit's `max_debt`.
    pub uncharged: u64,
}

// === impl Published ===

impl Published {
    /// Whether Redis has to remember holds of `key`, since those of dead holders are put back.
    pub(crate) fn remembers_holds(&self, key: Option<&str>) -> bool {
        self.limit.holds.on_abandon() == OnAbandon::Refund && self.mode(key) != Mode::Off
    }
}

// === impl Hold ===

impl Hold {
    /// A hold of nothing yet.
    pub(crate) fn new(bucket: &Bucket, entry: &Arc<BucketEntry>, estimate: u64, is_remembered: bool) -> Self {
        let (random, next) = &*IDS;
        Self {
            bucket: bucket.clone(),
            entry: entry.clone(),
            decision: Decision::Denied { remaining: 0, capacity: 0, retry_after: Duration::ZERO },
            estimate,
            id: format!("{random:016x}-{:x}", next.fetch_add(1, Relaxed)),
            is_remembered,
            is_exempt: false,
            first_try: None,
            settlement: None,
        }
    }

    /// The hold of one bucket whose take was a part of `decided`; `None` if it has no part in it. A key without a bucket
    /// is exempt or denied.
    pub(crate) fn of(
        decided: &MultiDecision,
        bucket: &Bucket,
        estimate: u64,
        is_without: bool,
    ) -> Option<Self> {
        let entry = bucket.entry().ok()?;
        let name = entry.name().live();
        let is_it = |limit: &&LimitDecision| limit.limit() == name.as_str() && limit.key() == entry.key();
        let decision = decided.limits().iter().find(is_it)?.decision();
        let published = bucket.last_published(entry);
        let is_remembered = published.is_some_and(|published| published.remembers_holds(entry.key()));
        let mut hold = Self::new(bucket, entry, estimate, is_remembered);
        hold.decision = decision;
        hold.is_exempt = is_without && matches!(decision, Decision::Allowed { .. });
        Some(hold)
    }

    /// Tokens that were asked for.
    #[cfg(feature = "tower")]
    pub(crate) const fn estimate(&self) -> u64 {
        self.estimate
    }

    /// The runtime of its client.
    #[cfg(feature = "tower")]
    pub(crate) fn runtime(&self) -> tokio::runtime::Handle {
        self.bucket.handle().shared().runtime.clone()
    }

    /// The decision on the estimate.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// The ID of the hold, for logs. No two holds have the same.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the caller may go on.
    pub const fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Time until a denied estimate would be allowed, if no other caller takes meanwhile; `None` if it was.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.decision.retry_after()
    }

    /// Tokens that the hold has: the estimate, or 0 if nothing was taken for it.
    pub const fn tokens(&self) -> u64 {
        if matches!(self.decision, Decision::Allowed { .. }) { self.estimate } else { 0 }
    }

    /// Settles the hold: `used` tokens, 0 to 2^53, were used. Puts back those that were not, or charges those beyond the
    /// estimate as [`Bucket::charge`] does.
    ///
    /// It is done once, however often it is called. A second call answers as the first one did. Attempts that fail are
    /// repeated within the deadline, with the number of the first one. After an error, call it again within 45 s. A
    /// put-back into a bucket that other workers take from waits as [`Bucket::refund`] does.
    ///
    /// Where nothing was taken, since the limit is in shadow, Redis was away or the hold was denied, all of `used` is
    /// charged. Under the outage policy `local`, the worker takes the estimate from Redis by itself, so only what is
    /// beyond it is charged.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`]. [`Error::SettledTooLate`] more than 45 s after the first attempt.
    pub async fn settle(&mut self, used: u64) -> Result<Settlement, Error> {
        if used > MAX_TOKENS {
            return Err(Error::InvalidCount { count: used });
        }
        if let Some(settlement) = self.settlement {
            return Ok(settlement);
        }
        let settlement = self.try_settle(used).await?;
        self.settlement = Some(settlement);
        Ok(settlement)
    }

    async fn try_settle(&mut self, used: u64) -> Result<Settlement, Error> {
        let (shared, entry) = (self.bucket.handle().shared(), &self.entry);
        let covered = match self.decision {
            Decision::Degraded { on_outage: OnOutage::Local, allowed: true, .. } => self.estimate.min(used),
            _ => self.tokens(),
        };
        let is_off = entry.limit().last().is_some_and(|published| published.mode(entry.key()) == Mode::Off);
        let remembered = self.remembered();
        // An earlier attempt may have been carried out, with its own number.
        let is_first = self.first_try.is_none();
        if is_first && !remembered && (is_off || self.is_exempt || used == covered) {
            return Ok(Settlement { charged: used, uncharged: 0 });
        }
        let now = shared.clock.now();
        let (first, used) = *self.first_try.get_or_insert((now, used));
        let since = Duration::from_micros(now.saturating_sub(first));
        if since > SETTLES_WITHIN {
            return Err(Error::SettledTooLate { limit: entry.name().to_string(), since });
        }
        let in_hand_for = entry.limit().last().map_or(Duration::ZERO, |last| last.limit.in_hand_for());
        let deadline = shared.deadline.saturating_add(in_hand_for);
        let until = now.saturating_add(micros(deadline));
        loop {
            let left = Duration::from_micros(until.saturating_sub(shared.clock.now()));
            let hold = HoldRef { id: &self.id, tokens: covered, is_remembered: remembered };
            let result = match self.bucket.handle().check_circuit(entry) {
                Err(error) => Err(error),
                Ok(()) => {
                    let request = entry.request_hold(hold, HoldRequest::Settle(used), self.bucket.handle());
                    let late = Err(Error::DeadlineExceeded { deadline: shared.deadline });
                    shared.clock.timeout(left, request).await.unwrap_or(late)
                }
            };
            self.bucket.handle().note_reply(entry, &result);
            match result {
                Ok(reply) => {
                    // The worker's estimate of the bucket and its cached denials are out of date.
                    entry.step(Event::Changed, self.bucket.handle(), None);
                    let uncharged = reply.uncharged;
                    return Ok(Settlement { charged: used.saturating_sub(uncharged), uncharged });
                }
                Err(error) if error.is_transient() && left > RETRY => shared.clock.sleep(RETRY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the tokens of a hold that Redis remembers.
    pub(crate) async fn reserve(&self) -> Result<Decision, Error> {
        let (handle, entry, count) = (self.bucket.handle(), &self.entry, self.estimate);
        if let Some(paused) = self.bucket.paused_decision(count).await {
            return self.bucket.conclude(entry, count, Ok(paused));
        }
        let known = entry.published(handle).and_then(|published| entry.denial(count, &published, handle));
        let result = match (known, handle.check_circuit(entry)) {
            (Some(denial), _) => Ok(denial.into()),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => {
                let hold = HoldRef { id: &self.id, tokens: count, is_remembered: true };
                let settled = handle.within_deadline(entry.reserve_hold(hold, handle)).await;
                settled.map(|settled| decision(&settled))
            }
        };
        self.bucket.conclude(entry, count, result)
    }

    /// Has Redis remember a hold whose tokens are taken.
    ///
    /// After an error, Redis may remember it or not. It counts as remembered then: settling it charges too much rather
    /// than too little.
    pub(crate) async fn remember(&self) {
        if self.remembered() {
            let hold = HoldRef { id: &self.id, tokens: self.estimate, is_remembered: true };
            let handle = self.bucket.handle();
            let _ =
                handle.within_deadline(self.entry.request_hold(hold, HoldRequest::Remember, handle)).await;
        }
    }

    /// Whether Redis remembers it.
    const fn remembered(&self) -> bool {
        self.is_remembered && self.tokens() > 0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.settlement.is_some() || !self.remembered() {
            return;
        }
        let (handle, entry) = (self.bucket.handle().clone(), self.entry.clone());
        let (id, tokens) = (std::mem::take(&mut self.id), self.estimate);
        let runtime = handle.shared().runtime.clone();
        // Should it fail, a daemon does it at the hold's time.
        runtime.spawn(async move {
            let hold = HoldRef { id: &id, tokens, is_remembered: true };
            if entry.request_hold(hold, HoldRequest::Abandon, &handle).await.is_ok() {
                entry.step(Event::Changed, &handle, None);
            }
        });
    }
}
