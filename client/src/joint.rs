//! Several takes in one decision.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use topup_wire::{
    bucket::Operation,
    limit::{LimitName, Mode},
    reply::Verdict,
    scripts,
};

use crate::{
    bucket::{Bucket, checked, decision},
    decision::Decision,
    error::Error,
    machine::Event,
    shell::{BucketEntry, Handle, Published, exceeds, unknown},
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
    entry: Arc<BucketEntry>,
    count: u64,
}

// === impl Joint ===

impl Joint {
    /// Takes all of `takes`, or nothing. Several of one bucket are one.
    pub(crate) async fn take(
        client: &Handle,
        takes: impl IntoIterator<Item = (Bucket, u64)>,
    ) -> Result<Self, Error> {
        let takes = gathered(takes)?;
        if let [take] = &takes[..] {
            let decision = take.bucket.take(take.count).await?;
            return Ok(Self::alone(&take.entry, decision));
        }
        let joint = Self::decide(client, &takes).await?;
        joint.tried(&takes);
        Ok(joint)
    }

    /// Counts what came of those that are counted: where one of them denies, nothing came of the others.
    fn tried(&self, takes: &[Take]) {
        for take in takes.iter().filter(|take| take.entry.limit().is_special()) {
            let level = self.levels.iter().find(|level| take.entry.is_of(&level.limit, level.key.as_deref()));
            let told = level.map(|level| level.decision);
            let told = told.filter(|decision| decision.would_deny() || self.is_allowed());
            if let (Some(published), Some(told)) = (take.entry.limit().last(), told) {
                take.bucket.tried(&take.entry, &published, take.count, Ok(told));
            }
        }
    }

    async fn decide(client: &Handle, takes: &[Take]) -> Result<Self, Error> {
        let remembered = |take: &Take| {
            let published = take.entry.published(client)?;
            if published.free(take.entry.key()).is_some() {
                return None;
            }
            let denial = take.entry.denial(take.count, &published, client)?;
            let told = take.bucket.judged(&take.entry, Ok(denial.into())).ok()?;
            (!told.is_allowed()).then(|| take.level(told))
        };
        let levels: Vec<Level> = takes.iter().filter_map(remembered).collect();
        if !levels.is_empty() || takes.is_empty() {
            return Ok(Self { levels });
        }
        let apart = &client.shared().apart;
        if !apart.load(Relaxed) || in_one_hash_slot(takes) {
            match takes[0].bucket.within_deadline(Self::at_once(client, takes)).await {
                Err(Error::Redis(error)) if scripts::is_cross_slot(&error) => apart.store(true, Relaxed),
                Ok(None) => {}
                Ok(Some(joint)) => return Ok(joint),
                Err(error) => return Self::unenforced(takes, &error).ok_or(error),
            }
        }
        Self::in_order(takes).await
    }

    /// What comes of `error` where none of the limits is enforced.
    fn unenforced(takes: &[Take], error: &Error) -> Option<Self> {
        let judged = |take: &Take| {
            let published = take.bucket.last_published(&take.entry)?;
            let key = take.entry.key();
            let judged =
                (published.mode(key) != Mode::Enforce).then(|| published.judge(key, Err(error.clone())));
            Some(take.level(judged?.ok()?))
        };
        Some(Self { levels: takes.iter().map(judged).collect::<Option<_>>()? })
    }

    /// What one bucket has decided.
    pub(crate) fn alone(entry: &BucketEntry, decision: Decision) -> Self {
        Self { levels: vec![Level::of(entry, decision)] }
    }

    /// All in one step; `None` when a limit is not what it was, and nothing was done.
    async fn at_once(client: &Handle, takes: &[Take]) -> Result<Option<Self>, Error> {
        let shared = client.shared();
        let limits = published(takes).await?;
        let asked =
            takes.iter().zip(&limits).map(|(take, limit)| (take, limit, limit.mode(take.entry.key())));
        let parts = asked.clone().filter(|(.., mode)| *mode != Mode::Off).map(|(take, limit, mode)| {
            let location = limit.locate(take.entry.key());
            scripts::BucketTake {
                algorithm: location.algorithm(),
                keys: location.keys,
                member: location.member,
                count: take.count,
                enforced: mode == Mode::Enforce,
            }
        });
        let parts: Vec<_> = parts.collect();
        let sent = shared.clock.now();
        let told = match &parts[..] {
            [] => Vec::new(),
            parts => scripts::take_all(&mut shared.connection(), parts).await?,
        };
        let (mut told, mut levels) = (told.iter(), Vec::with_capacity(takes.len()));
        for (take, limit, mode) in asked {
            let (entry, key) = (&take.entry, take.entry.key());
            if let Some(free) = limit.free(key) {
                levels.push(take.level(free));
                continue;
            }
            let Some(settled) = told.next() else { return Ok(None) };
            let answer = match settled.verdict {
                Verdict::Unknown => {
                    entry.limit().invalidate();
                    if mode == Mode::Enforce {
                        return Ok(None);
                    }
                    Err(unknown(entry))
                }
                Verdict::ExceedsCapacity => Err(exceeds(entry, take.count, settled.capacity)),
                _ => Ok(decision(settled)),
            };
            if settled.verdict == Verdict::Denied {
                let heard = Event::Heard { settled: *settled, count: take.count, sent };
                entry.step_under(heard, limit, client, None);
            }
            match limit.judge(key, answer) {
                Ok(judged) => levels.push(take.level(judged)),
                // Changed meanwhile: it says nothing, and has no say in what was taken of the others.
                Err(Error::UnknownLimit { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Self { levels }))
    }

    /// One after the other, with what was taken given back when a later one denies; then those that are not enforced.
    async fn in_order(takes: &[Take]) -> Result<Self, Error> {
        let limits = published(takes).await?;
        let mode_of = |take: &Take, limit: &Published| limit.mode(take.entry.key());
        let enforced = |mode| {
            let all = takes.iter().zip(&limits);
            all.filter(move |(take, limit)| (mode_of(take, limit) == Mode::Enforce) == mode)
        };
        let binding: Vec<&Take> = enforced(true).map(|(take, _)| take).collect();
        let mut levels = Self::binding_in_order(&binding).await?;
        let all = levels.iter().all(|level| level.decision.is_allowed());
        for (take, limit) in enforced(false) {
            let operation = if all { Operation::Take(take.count) } else { Operation::Peek(take.count) };
            // As in one step: one that was removed meanwhile says nothing.
            if let Ok(judged) = limit.judge(take.entry.key(), take.settle(operation).await) {
                levels.push(take.level(judged));
            }
        }
        levels.sort_by_key(|level| {
            takes.iter().position(|take| take.entry.is_of(&level.limit, level.key.as_deref()))
        });
        Ok(Self { levels })
    }

    async fn binding_in_order(takes: &[&Take]) -> Result<Vec<Level>, Error> {
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
        Ok(levels)
    }

    /// Whether the caller may go on: every level has been taken from, but for those in shadow that had too few tokens.
    /// Otherwise none has.
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
    fn of(entry: &BucketEntry, decision: Decision) -> Self {
        Self { limit: *entry.name(), key: entry.key().map(str::to_owned), decision }
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
        Level::of(&self.entry, decision)
    }
}

/// Whether a cluster has all of the buckets on one node, as far as that is known.
fn in_one_hash_slot(takes: &[Take]) -> bool {
    let hash_slot = |take: &Take| Some(take.entry.limit().last()?.locate(take.entry.key()).keys.hash_slot);
    let mut hash_slots = takes.iter().map(hash_slot);
    let first = hash_slots.next().flatten();
    first.is_some() && hash_slots.all(|slot| slot == first)
}

/// The limit of each of the buckets.
async fn published(takes: &[Take]) -> Result<Vec<Arc<Published>>, Error> {
    let mut published = Vec::with_capacity(takes.len());
    for take in takes {
        published.push(take.bucket.within_deadline(take.entry.read(take.bucket.handle())).await?);
    }
    Ok(published)
}

/// One take for each bucket.
fn gathered(takes: impl IntoIterator<Item = (Bucket, u64)>) -> Result<Vec<Take>, Error> {
    let mut gathered: Vec<Take> = Vec::new();
    for (bucket, count) in takes {
        checked(count)?;
        let entry = bucket.entry()?.clone();
        match gathered.iter_mut().find(|take| take.entry.is_of(entry.name(), entry.key())) {
            Some(take) => {
                take.count += count;
                checked(take.count)?;
            }
            None => gathered.push(Take { bucket, entry, count }),
        }
    }
    Ok(gathered)
}
