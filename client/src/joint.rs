//! Several takes in one decision.

use std::time::Duration;

use topup_wire::{
    bucket::Operation,
    reply::{Settled, Verdict},
};

use crate::{
    bucket::{Bucket, checked, decision},
    decision::Decision,
    error::Error,
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
    limit: String,
    key: Option<String>,
    decision: Decision,
}

/// A take of so many tokens of one bucket.
#[derive(Clone, Debug)]
struct Take {
    bucket: Bucket,
    count: u64,
}

// === impl Joint ===

impl Joint {
    /// Takes all of `takes`, or nothing. Several of one bucket are one.
    pub(crate) async fn take(takes: impl IntoIterator<Item = (Bucket, u64)>) -> Result<Self, Error> {
        let takes = gathered(takes)?;
        if let [Take { bucket, count }] = &takes[..] {
            return Ok(Self::alone(bucket, bucket.take(*count).await?));
        }
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

    /// What one bucket decided.
    pub(crate) fn alone(bucket: &Bucket, decision: Decision) -> Self {
        Self { levels: vec![Level::new(bucket, decision)] }
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
    fn new(bucket: &Bucket, decision: Decision) -> Self {
        let (limit, key) = bucket.name();
        Self { limit: limit.to_owned(), key: key.map(str::to_owned), decision }
    }

    /// The name of the limit.
    pub fn limit(&self) -> &str {
        &self.limit
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
        Level::new(&self.bucket, decision(settled))
    }
}

/// One take for each bucket.
fn gathered(takes: impl IntoIterator<Item = (Bucket, u64)>) -> Result<Vec<Take>, Error> {
    let mut gathered: Vec<Take> = Vec::new();
    for (bucket, count) in takes {
        checked(count)?;
        match gathered.iter_mut().find(|take| take.bucket.name() == bucket.name()) {
            Some(take) => {
                take.count += count;
                checked(take.count)?;
            }
            None => gathered.push(Take { bucket, count }),
        }
    }
    Ok(gathered)
}
