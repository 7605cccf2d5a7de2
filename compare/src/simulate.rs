//! A limit tried on a trace by the twin of topup's scripts, in virtual time.

mod replies;
mod simulated;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use anyhow::Context;
use topup_wire::{
    limit::{Limit, Target},
    reply::Verdict,
};

pub use self::{
    replies::BEGIN,
    simulated::{DeniedKey, PlanTakes, Simulated},
};
use self::{
    replies::{Reply, decisions},
    summary::summarize,
};
use crate::replay::{Trace, trace::Entry};

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
