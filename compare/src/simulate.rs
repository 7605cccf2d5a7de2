//! A limit tried on a trace by the twin of topup's scripts, in virtual time.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt::Write};

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use topup_lab::clock::{Micros, SECOND};
use topup_twin::{
    Bucket, FairShares, FixedWindow, LazyBucket, LeakyBucket, Record, ShareTerms, SlidingCounter, SlidingLog,
    State,
};
use topup_wire::{
    bucket::Operation,
    limit::{Algorithm, Limit, Schedule, Supply, Target},
    reply::{Settled, Verdict},
};

use crate::{
    penalty::{Blocks, Penalty},
    replay::{Trace, trace::Entry},
};

/// The instant of the first take, in µs: the beginning of a day, so that aligned windows begin with it.
pub const BEGIN: Micros = 20_000 * 86_400 * SECOND;
/// Most keys that are named.
const MOST_NAMED: usize = 10;

/// The decisions that a limit would have made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// The limit.
    pub limit: String,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Most tokens of a bucket.
    pub capacity: u64,
    /// Tokens per interval, or per window.
    pub rate: String,
    /// Takes of the trace.
    pub takes: u64,
    /// Keys of the trace.
    pub keys: u64,
    /// The length of the trace, in seconds.
    pub seconds: f64,
    /// Takes that would have been allowed.
    pub allowed: u64,
    /// Takes that would have been denied.
    pub denied: u64,
    /// Denied takes of more tokens than a bucket ever holds.
    pub too_large: u64,
    /// Denied takes of blocked keys; absent without a penalty.
    pub blocked: Option<u64>,
    /// The longest time that a denial would have named, in seconds; absent without one.
    pub longest_retry_after: Option<f64>,
    /// The keys that would have been denied most.
    pub most_denied: Vec<DeniedKey>,
    /// Takes of keys that have not the limit's own terms.
    pub plans: Vec<PlanTakes>,
}

/// Takes of all keys of a plan, or of `exempt` or `deny`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanTakes {
    /// Its name.
    pub plan: String,
    /// Its denied takes.
    pub denied: u64,
    /// All its takes.
    pub takes: u64,
}

/// A limit to be simulated, and its plans.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The limit.
    pub limit: Limit,
    /// The plans that keys of the trace have.
    pub plans: Vec<Limit>,
    /// The keys that have not the limit's own terms.
    pub targets: HashMap<String, Target>,
}

/// The reply to a take.
#[derive(Clone, Copy, Debug)]
struct Reply {
    verdict: Verdict,
    /// The time that a denial names, in µs.
    wait: u64,
    /// Whether its key was blocked.
    is_blocked: bool,
}

/// A key that would have been denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeniedKey {
    /// The key, as the trace names it.
    pub key: String,
    /// Its denied takes.
    pub denied: u64,
    /// All its takes.
    pub takes: u64,
}

/// Decides every take of `trace`, by the plan of its key. Each bucket is full before its first take.
///
/// # Errors
/// For a limit whose tokens come by the calendar or by a daemon's ticks: the trace tells neither.
pub fn simulate(tried: &Tried, trace: &Trace) -> anyhow::Result<Simulated> {
    let target = |entry: &Entry| tried.targets.get(&trace.keys[entry.key as usize]).copied();
    let mut by_target: Vec<(Option<Target>, Vec<usize>)> = Vec::new();
    for (index, entry) in trace.entries.iter().enumerate() {
        match by_target.iter_mut().find(|(one, _)| *one == target(entry)) {
            Some((_, indices)) => indices.push(index),
            None => by_target.push((target(entry), vec![index])),
        }
    }
    let (mut replies, mut plans) = (vec![None; trace.entries.len()], Vec::new());
    for (target, indices) in by_target {
        let entries: Vec<Entry> = indices.iter().map(|index| trace.entries[*index]).collect();
        let same = |verdict| vec![Reply { verdict, wait: 0, is_blocked: false }; entries.len()];
        let told = match target {
            None => decisions(&tried.limit, entries, &trace.keys)?,
            Some(Target::Exempt) => same(Verdict::Allowed),
            Some(Target::Deny) => same(Verdict::Denied),
            Some(Target::Plan(plan)) => {
                let name = tried.limit.name.plan(plan);
                let limit = tried.plans.iter().find(|limit| limit.name == name);
                decisions(limit.with_context(|| format!("there is no limit {name}"))?, entries, &trace.keys)?
            }
        };
        if let Some(target) = target {
            let denied = told.iter().filter(|reply| reply.verdict != Verdict::Allowed).count() as u64;
            plans.push(PlanTakes { plan: target.to_string(), denied, takes: told.len() as u64 });
        }
        indices.into_iter().zip(told).for_each(|(index, reply)| replies[index] = Some(reply));
    }
    plans.sort_by(|a, b| a.plan.cmp(&b.plan));
    let replies: Vec<Reply> = replies.into_iter().flatten().collect();
    summarize(&tried.limit, trace, &replies, plans)
}

/// The replies of `limit` to `entries`.
fn decisions(limit: &Limit, entries: Vec<Entry>, keys: &[String]) -> anyhow::Result<Vec<Reply>> {
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
                topup_twin::settle(&record, bucket.get_or_insert_default(), operation, false, 0, now)
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

fn summarize(
    limit: &Limit,
    trace: &Trace,
    replies: &[Reply],
    plans: Vec<PlanTakes>,
) -> anyhow::Result<Simulated> {
    let (mut by_key, mut longest) = (vec![(0, 0); trace.keys.len()], None);
    let (mut allowed, mut too_large) = (0, 0);
    for (entry, reply) in trace.entries.iter().zip(replies) {
        let (denied, takes) = &mut by_key[entry.key as usize];
        *takes += 1;
        match reply.verdict {
            Verdict::Allowed => {
                allowed += 1;
                continue;
            }
            Verdict::Denied => longest = longest.max(Some(reply.wait)),
            Verdict::ExceedsCapacity => too_large += 1,
            Verdict::Unknown => bail!("the model knows no such limit, which is a bug of topup"),
        }
        *denied += 1;
    }
    let named = by_key.into_iter().zip(&trace.keys).filter(|((denied, _), _)| *denied > 0);
    let mut most_denied: Vec<DeniedKey> =
        named.map(|((denied, takes), key)| DeniedKey { key: key.clone(), denied, takes }).collect();
    most_denied.sort_by(|a, b| b.denied.cmp(&a.denied).then_with(|| a.key.cmp(&b.key)));
    most_denied.truncate(MOST_NAMED);
    let rate = match &limit.terms.supply {
        Supply::Rate(rate) => rate.to_string(),
        Supply::Windows(windows) => windows.to_string(),
        Supply::Period(_) | Supply::Permits(_) => String::new(),
    };
    let takes = replies.len() as u64;
    Ok(Simulated {
        limit: limit.name.to_string(),
        algorithm: limit.algorithm.as_str(),
        capacity: limit.terms.capacity.get(),
        rate,
        takes,
        keys: trace.keys.len() as u64,
        seconds: trace.length() as f64 / SECOND as f64,
        allowed,
        denied: takes - allowed,
        too_large,
        blocked: limit.penalty.map(|_| replies.iter().filter(|reply| reply.is_blocked).count() as u64),
        longest_retry_after: longest.map(|wait| wait as f64 / SECOND as f64),
        most_denied,
        plans,
    })
}

// === impl Simulated ===

impl Simulated {
    /// The figures as lines.
    pub fn text(&self) -> String {
        let share = |takes: u64| takes as f64 * 100.0 / self.takes.max(1) as f64;
        let mut text = format!(
            "limit {}: {}, capacity {}, {}\n{} takes of {} keys in {:.1} s\n{} allowed ({:.1} %), {} denied ({:.1} %)",
            self.limit,
            self.algorithm,
            self.capacity,
            self.rate,
            self.takes,
            self.keys,
            self.seconds,
            self.allowed,
            share(self.allowed),
            self.denied,
            share(self.denied),
        );
        if self.too_large > 0 {
            let _ = write!(text, "\n{} of them ask for more than a bucket ever holds", self.too_large);
        }
        if let Some(blocked) = self.blocked {
            let _ = write!(text, "\n{blocked} of them within blocks");
        }
        if let Some(longest) = self.longest_retry_after {
            let _ = write!(text, "\nlongest retry_after {longest:.3} s");
        }
        for PlanTakes { plan, denied, takes } in &self.plans {
            let _ = write!(text, "\n{plan}: {denied} of {takes} takes denied");
        }
        if !self.most_denied.is_empty() {
            text += "\nmost denied";
        }
        for DeniedKey { key, denied, takes } in &self.most_denied {
            let key: String = key.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let _ = write!(text, "\n  {key}  {denied} of {takes}");
        }
        text
    }
}
