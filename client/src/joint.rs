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
    bucket::{Bucket, checked, decision, exceeds, unknown},
    client::Client,
    decision::Decision,
    error::Error,
    known::Asked,
    published::Place,
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
        let joint = Self::decide(client, &takes).await?;
        joint.tried(&takes);
        Ok(joint)
    }

    /// Counts what came of those that are counted: where one of them denies, nothing came of the others.
    fn tried(&self, takes: &[Take]) {
        for take in takes.iter().filter(|take| take.slot.is_special()) {
            let level = self.levels.iter().find(|level| take.slot.is_of(&level.limit, level.key.as_deref()));
            let told = level.map(|level| level.decision);
            let told = told.filter(|decision| decision.would_deny() || self.is_allowed());
            if let (Some(place), Some(told)) = (take.slot.last_place(), told) {
                take.bucket.tried(&place, take.count, Ok(told));
            }
        }
    }

    async fn decide(client: &Client, takes: &[Take]) -> Result<Self, Error> {
        let remembered = |take: &Take| {
            let told = take.bucket.judged(&take.slot, Ok(take.slot.remembered(take.count, client)?)).ok()?;
            (!told.is_allowed()).then(|| take.level(told))
        };
        let levels: Vec<Level> = takes.iter().filter_map(remembered).collect();
        if !levels.is_empty() || takes.is_empty() {
            return Ok(Self { levels });
        }
        let apart = &client.shared().apart;
        if !apart.load(Relaxed) || in_one_slot(takes) {
            match takes[0].bucket.within_deadline(Self::at_once(client, takes)).await {
                Err(Error::Redis(error)) if scripts::are_apart(&error) => apart.store(true, Relaxed),
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
            let place = take.bucket.last_place(&take.slot).filter(|place| place.mode != Mode::Enforce)?;
            Some(take.level(place.judge(Err(error.clone())).ok()?))
        };
        Some(Self { levels: takes.iter().map(judged).collect::<Option<_>>()? })
    }

    /// What one bucket has decided.
    pub(crate) fn alone(slot: &Slot, decision: Decision) -> Self {
        Self { levels: vec![Level::of(slot, decision)] }
    }

    /// All in one step; `None` when a limit is not what it was, and nothing was done.
    async fn at_once(client: &Client, takes: &[Take]) -> Result<Option<Self>, Error> {
        let shared = client.shared();
        let places = places(takes).await?;
        let parts = takes.iter().zip(&places).filter(|(_, place)| place.mode != Mode::Off);
        let parts = parts.map(|(take, place)| scripts::Part {
            algorithm: place.published.limit.algorithm,
            keys: place.keys(),
            member: place.member(),
            count: take.count,
            enforced: place.mode == Mode::Enforce,
        });
        let parts: Vec<_> = parts.collect();
        let sent = shared.clock.now();
        let told = match &parts[..] {
            [] => Vec::new(),
            parts => scripts::joint(&mut shared.connection(), parts).await?,
        };
        let received = shared.clock.now();
        let all = parts
            .iter()
            .zip(&told)
            .all(|(part, settled)| !part.enforced || settled.verdict == Verdict::Allowed);
        let (mut told, mut levels) = (told.iter(), Vec::with_capacity(takes.len()));
        for (take, place) in takes.iter().zip(&places) {
            if let Some(free) = place.free() {
                levels.push(take.level(free));
                continue;
            }
            let Some(settled) = told.next() else { return Ok(None) };
            let answer = match settled.verdict {
                Verdict::Unknown => {
                    take.bucket.lost(&take.slot);
                    if place.mode == Mode::Enforce {
                        return Ok(None);
                    }
                    Err(unknown(&take.slot))
                }
                Verdict::ExceedsCapacity => Err(exceeds(&take.slot, take.count, settled.capacity)),
                Verdict::Allowed | Verdict::Denied => Ok(decision(settled)),
            };
            // What was only looked at may have no counter to take from.
            if answer.is_ok() && (all || settled.verdict == Verdict::Denied) {
                let (terms, epoch) = (place.published.terms, place.published.epoch);
                let asked = Asked { count: take.count, sent, terms, epoch };
                take.slot.learn(settled, Operation::Take(take.count), asked, received);
            }
            match place.judge(answer) {
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
        let places = places(takes).await?;
        let enforced =
            |mode| takes.iter().zip(&places).filter(move |(_, place)| (place.mode == Mode::Enforce) == mode);
        let binding: Vec<&Take> = enforced(true).map(|(take, _)| take).collect();
        let mut levels = Self::binding_in_order(&binding).await?;
        let all = levels.iter().all(|level| level.decision.is_allowed());
        for (take, place) in enforced(false) {
            let operation = if all { Operation::Take(take.count) } else { Operation::Peek(take.count) };
            // As in one step: one that was removed meanwhile says nothing.
            if let Ok(judged) = place.judge(take.settle(operation).await) {
                levels.push(take.level(judged));
            }
        }
        levels.sort_by_key(|level| {
            takes.iter().position(|take| take.slot.is_of(&level.limit, level.key.as_deref()))
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

/// Whether a cluster has all of the buckets in one place, as far as that is known.
fn in_one_slot(takes: &[Take]) -> bool {
    let mut slots = takes.iter().map(|take| take.slot.last_place().map(|place| place.keys().slot));
    let first = slots.next().flatten();
    first.is_some() && slots.all(|slot| slot == first)
}

/// Where each of the buckets is.
async fn places(takes: &[Take]) -> Result<Vec<Place>, Error> {
    let mut places = Vec::with_capacity(takes.len());
    for take in takes {
        places.push(take.bucket.within_deadline(take.bucket.place(&take.slot)).await?);
    }
    Ok(places)
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
