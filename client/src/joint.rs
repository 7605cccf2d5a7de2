//! Several takes in one decision.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use topup_wire::{bucket::Operation, limit::LimitName, reply::Verdict, scripts};

use crate::{
    bucket::{Bucket, checked, decision, exceeds},
    client::Client,
    decision::Decision,
    error::Error,
    known::Asked,
    slot::Slot,
};

/// The answer to [`Client::take_all`](crate::Client::take_all): all of it was taken, or nothing at all.
#[must_use = "a decision that nobody looks at limits nothing"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joint {
    levels: Vec<Level>,
}

/// One bucket of a [`Joint`] decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    limit: LimitName,
    key: Option<String>,
    decision: Decision,
}

/// A take of so many tokens of one bucket.
#[derive(Clone, Debug)]
struct Take {
    bucket: Bucket,
    slot: Arc<Slot>,
    count: u64,
}

// === impl Joint ===

impl Joint {
    /// Takes all of `takes`, or nothing. Several of one bucket are one.
    pub(crate) async fn take(
        client: &Client,
        takes: impl IntoIterator<Item = (Bucket, u64)>,
    ) -> Result<Self, Error> {
        let takes = gathered(takes)?;
        if let [take] = &takes[..] {
            let decision = take.bucket.take(take.count).await?;
            return Ok(Self::alone(&take.slot, decision));
        }
        let remembered = |take: &Take| Some(take.level(take.slot.remembered(take.count, client)?));
        let levels: Vec<Level> = takes.iter().filter_map(remembered).collect();
        if !levels.is_empty() || takes.is_empty() {
            return Ok(Self { levels });
        }
        let apart = &client.shared().apart;
        if !apart.load(Relaxed) {
            match takes[0].bucket.within_deadline(Self::at_once(client, &takes)).await {
                Err(Error::Redis(error)) if scripts::are_apart(&error) => apart.store(true, Relaxed),
                Ok(None) => {}
                Ok(Some(joint)) => return Ok(joint),
                Err(error) => return Err(error),
            }
        }
        Self::in_order(&takes).await
    }

    /// What one bucket has decided.
    pub(crate) fn alone(slot: &Slot, decision: Decision) -> Self {
        Self { levels: vec![Level::of(slot, decision)] }
    }

    /// All in one step; `None` when a limit is not what it was, and nothing was done.
    async fn at_once(client: &Client, takes: &[Take]) -> Result<Option<Self>, Error> {
        let shared = client.shared();
        let mut places = Vec::with_capacity(takes.len());
        for take in takes {
            places.push(take.bucket.place(&take.slot).await?);
        }
        let parts = takes.iter().zip(&places).map(|(take, place)| scripts::Part {
            algorithm: place.published.limit.algorithm,
            keys: place.keys(),
            member: place.member(),
            count: take.count,
        });
        let parts: Vec<_> = parts.collect();
        let sent = shared.clock.now();
        let told = scripts::joint(&mut shared.connection(), &parts).await?;
        let received = shared.clock.now();
        let mut changed = false;
        for (take, settled) in takes.iter().zip(&told) {
            match settled.verdict {
                Verdict::Unknown => {
                    take.bucket.lost(&take.slot);
                    changed = true;
                }
                Verdict::ExceedsCapacity => return Err(exceeds(&take.slot, take.count, settled.capacity)),
                Verdict::Allowed | Verdict::Denied => {}
            }
        }
        if changed {
            return Ok(None);
        }
        let all = told.iter().all(|settled| settled.verdict == Verdict::Allowed);
        let mut levels = Vec::with_capacity(takes.len());
        for ((take, place), settled) in takes.iter().zip(&places).zip(&told) {
            // What was only looked at may have no counter to take from.
            if all || settled.verdict == Verdict::Denied {
                let (terms, epoch) = (place.published.terms, place.published.epoch);
                let asked = Asked { count: take.count, sent, terms, epoch };
                take.slot.learn(settled, Operation::Take(take.count), asked, received);
            }
            levels.push(take.level(decision(settled)));
        }
        Ok(Some(Self { levels }))
    }

    /// One after the other, with what was taken given back when a later one denies.
    async fn in_order(takes: &[Take]) -> Result<Self, Error> {
        let mut levels = Vec::with_capacity(takes.len());
        for (i, take) in takes.iter().enumerate() {
            match take.settle(Operation::Take(take.count)).await {
                Ok(told) if told.is_allowed() => levels.push(take.level(told)),
                Ok(told) => {
                    levels.clear();
                    for taken in &takes[..i] {
                        levels.push(taken.level(taken.give_back().await?));
                    }
                    levels.push(take.level(told));
                    for later in &takes[i + 1..] {
                        levels.push(later.level(later.settle(Operation::Peek(later.count)).await?));
                    }
                    break;
                }
                Err(error) => {
                    for taken in &takes[..i] {
                        // What cannot be given back is lost to the bucket; the first error says more.
                        let _ = taken.give_back().await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(Self { levels })
    }

    /// Whether the caller may go on: every level has been taken from. Otherwise none has.
    pub fn is_allowed(&self) -> bool {
        self.levels.iter().all(|level| level.decision.is_allowed())
    }

    /// What each bucket told, in the order in which they were named. When one of them denies, the others tell what they
    /// would have told alone, and have spent nothing; where a denial was remembered, only those that deny are here.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The level that denies for the longest; `None` when all is allowed.
    pub fn denied_by(&self) -> Option<&Level> {
        let denied = self.levels.iter().filter(|level| !level.decision.is_allowed());
        // The first of several: `max_by_key` gives the last.
        denied.rev().max_by_key(|level| level.decision.retry_after())
    }

    /// How long until a denied take would succeed, if nobody else takes meanwhile; `None` when allowed.
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied_by()?.decision.retry_after()
    }
}

// === impl Level ===

impl Level {
    fn of(slot: &Slot, decision: Decision) -> Self {
        Self { limit: *slot.limit(), key: slot.key().map(str::to_owned), decision }
    }

    /// The name of the limit.
    pub fn limit(&self) -> &str {
        self.limit.as_str()
    }

    /// Whose bucket it is, of a keyed limit.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// What it decides.
    pub const fn decision(&self) -> Decision {
        self.decision
    }
}

// === impl Take ===

impl Take {
    async fn settle(&self, operation: Operation) -> Result<Decision, Error> {
        let settled = self.bucket.within_deadline(self.bucket.settle(operation)).await?;
        Ok(decision(&settled))
    }

    async fn give_back(&self) -> Result<Decision, Error> {
        self.settle(Operation::Refund(self.count)).await
    }

    fn level(&self, decision: Decision) -> Level {
        Level::of(&self.slot, decision)
    }
}

/// One take for each bucket.
fn gathered(takes: impl IntoIterator<Item = (Bucket, u64)>) -> Result<Vec<Take>, Error> {
    let mut gathered: Vec<Take> = Vec::new();
    for (bucket, count) in takes {
        checked(count)?;
        let slot = bucket.slot()?.clone();
        match gathered.iter_mut().find(|take| take.slot.is_of(slot.limit(), slot.key())) {
            Some(take) => {
                take.count += count;
                checked(take.count)?;
            }
            None => gathered.push(Take { bucket, slot, count }),
        }
    }
    Ok(gathered)
}
