//! The replies of a limit to the takes of a trace, by the twin of its script.

use std::collections::HashMap;

use anyhow::ensure;
use topup_lab::clock::{Micros, SECOND};
use topup_twin::{
    Bucket, FairShares, FixedWindow, LazyBucket, LeakyBucket, Record, ShareTerms, SlidingCounter, SlidingLog,
    State,
};
use topup_wire::{
    bucket::Operation,
    limit::{Algorithm, Limit, Schedule, Supply},
    reply::{Settled, Verdict},
};

use crate::{
    penalty::{Blocks, Penalty},
    replay::{Trace, trace::Entry},
};

/// The instant of the first take, in µs: the beginning of a day, so that aligned windows begin with it.
pub const BEGIN: Micros = 20_000 * 86_400 * SECOND;

/// The reply to a take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) verdict: Verdict,
    /// The time that a denial names, in µs.
    pub(super) wait: u64,
    /// Whether its key was blocked.
    pub(super) is_blocked: bool,
}

/// The replies of `limit` to `entries`.
pub(super) fn decisions(limit: &Limit, entries: Vec<Entry>, keys: &[String]) -> anyhow::Result<Vec<Reply>> {
    ensure!(
        !matches!(limit.terms.supply, Supply::Period(_)),
        "limit {} is filled by the calendar, and a simulation has none: see `replay`",
        limit.name
    );
    ensure!(
        limit.catch_up || limit.algorithm != Algorithm::TokenBucket,
        "tokens of limit {} come with the ticks of a daemon, and a simulation has none: see `replay`",
        limit.name
    );
    ensure!(
        !limit.algorithm.has_permits(),
        "limit {} has permits in place of tokens, and a trace tells no releases",
        limit.name
    );
    // Schedules name instants of the calendar, too: the terms are those in force at the beginning.
    let limit = Limit { schedule: Schedule::NONE, ..limit.clone() };
    let record = Record::new(&limit, BEGIN);
    let trace = &Trace { entries, keys: keys.to_vec() };
    Ok(match limit.algorithm {
        Algorithm::TokenBucket | Algorithm::Gcra => {
            let settle = |bucket: &mut Option<Bucket>, operation, now| {
                topup_twin::settle(&record, bucket.get_or_insert_default(), operation, false, None, now)
            };
            decide(&limit, trace, settle)
        }
        Algorithm::LazyTokenBucket => scripted::<LazyBucket>(&limit, &record, trace),
        Algorithm::LeakyBucket => scripted::<LeakyBucket>(&limit, &record, trace),
        Algorithm::FixedWindow => scripted::<FixedWindow>(&limit, &record, trace),
        Algorithm::SlidingWindow => scripted::<SlidingLog>(&limit, &record, trace),
        Algorithm::SlidingCounter => scripted::<SlidingCounter>(&limit, &record, trace),
        Algorithm::FairShares => shared(&limit, record, trace),
        // Refused above.
        Algorithm::Concurrency => Vec::new(),
    })
}

fn scripted<S: State>(limit: &Limit, record: &Record, trace: &Trace) -> Vec<Reply> {
    decide(limit, trace, |state: &mut Option<S>, operation, now| S::settle(record, state, operation, now))
}

/// The replies of a limit whose keys borrow from each other.
fn shared(limit: &Limit, record: Record, trace: &Trace) -> Vec<Reply> {
    let (terms, mut state) = (ShareTerms::new(limit, record), None);
    let mut blocks: HashMap<u32, Blocks> = HashMap::new();
    let mut take = |entry: &Entry| {
        let (key, take) = (&trace.keys[entry.key as usize], Operation::Take(entry.count.into()));
        unless_blocked(limit, blocks.entry(entry.key).or_default(), BEGIN + entry.at, |now| {
            FairShares::settle(&terms, &mut state, key, take, now, None)
        })
    };
    trace.entries.iter().map(&mut take).collect()
}

/// The replies to all takes, in order.
fn decide<S>(
    limit: &Limit,
    trace: &Trace,
    settle: impl Fn(&mut Option<S>, Operation, u64) -> Settled,
) -> Vec<Reply> {
    let mut states: HashMap<u32, (Option<S>, Blocks)> = HashMap::new();
    let take = |entry: &Entry| {
        let key = if limit.keyed { entry.key } else { 0 };
        let (state, blocks) = states.entry(key).or_default();
        unless_blocked(limit, blocks, BEGIN + entry.at, |now| {
            settle(state, Operation::Take(entry.count.into()), now)
        })
    };
    trace.entries.iter().map(take).collect()
}

/// The reply of `settle` at `now`, unless the key is blocked. A block begins with the take that earned it.
fn unless_blocked(
    limit: &Limit,
    blocks: &mut Blocks,
    now: Micros,
    settle: impl FnOnce(Micros) -> Settled,
) -> Reply {
    if let Some(end) = blocks.end(now) {
        return Reply { verdict: Verdict::Denied, wait: end - now, is_blocked: true };
    }
    let Settled { verdict, wait, .. } = settle(now);
    if let (Some(penalty), Verdict::Denied) = (limit.penalty, verdict) {
        blocks.deny(&Penalty::from(penalty), now);
    }
    Reply { verdict, wait, is_blocked: false }
}
