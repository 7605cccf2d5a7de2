//! Several takes in one decision.

use std::{sync::Arc, time::Duration};

use topup_wire::{
    bucket::Operation,
    limit::LimitName,
    reply::{Settled, Verdict},
};

use crate::{
    bucket::{Bucket, checked, decision},
    decision::Decision,
    error::Error,
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
    pub(crate) async fn take(takes: impl IntoIterator<Item = (Bucket, u64)>) -> Result<Self, Error> {
        let takes = gathered(takes)?;
        let mut levels = Vec::with_capacity(takes.len());
        for (i, take) in takes.iter().enumerate() {
            match take.settle(Operation::Take(take.count)).await {
                Ok(settled) if settled.verdict == Verdict::Allowed => levels.push(take.level(&settled)),
                Ok(settled) => {
                    levels.clear();
                    for taken in &takes[..i] {
                        levels.push(taken.level(&taken.give_back().await?));
                    }
                    levels.push(take.level(&settled));
                    for later in &takes[i + 1..] {
                        levels.push(later.level(&later.settle(Operation::Peek(later.count)).await?));
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
    /// would have told alone, and have spent nothing.
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
    async fn settle(&self, operation: Operation) -> Result<Settled, Error> {
        self.bucket.within_deadline(self.bucket.settle(operation)).await
    }

    async fn give_back(&self) -> Result<Settled, Error> {
        self.settle(Operation::Refund(self.count)).await
    }

    fn level(&self, settled: &Settled) -> Level {
        let key = self.slot.key().map(str::to_owned);
        Level { limit: *self.slot.limit(), key, decision: decision(settled) }
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
