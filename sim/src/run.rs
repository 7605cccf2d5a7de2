//! One run: everything that happens, judged by the laws.

use std::{
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use topup_wire::limit::OnChange;

use crate::{
    fault::Fault,
    oracle::{self, Broken, Law, Note},
    plan::{Plan, Promise},
    world::{Counts, World},
};

/// Lines of a story.
const LINES: u64 = 40;

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// The first law that was broken.
    pub broken: Option<Broken>,
    /// By how much law 1 was exceeded in the worst of cases, late commands included, in thousandths of a token.
    pub worst: u64,
    /// Its ingredients.
    pub counts: Counts,
    /// Tokens of each worker's callers that waited for them.
    pub waited_for: Vec<u64>,
}

/// Runs `plan`, with a planted fault if one is given.
pub fn run(plan: &Plan, fault: Option<Fault>) -> RunResult {
    match catch_unwind(AssertUnwindSafe(|| judged(plan, fault))) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            let law = Law::Panicked(said.unwrap_or_default());
            RunResult { broken: Some(Broken { bucket: 0, at: u64::MAX, law }), ..RunResult::default() }
        }
    }
}

fn judged(plan: &Plan, fault: Option<Fault>) -> RunResult {
    let mut world = World::new(plan.clone(), fault, false);
    world.run();
    let waited_for = world.workers.iter().map(|worker| worker.waited_for).collect();
    let mut outcome = RunResult { counts: world.counts, waited_for, ..RunResult::default() };
    let mut broken = std::mem::take(&mut world.broken);
    let promises: Vec<Promise> = plan.promises().collect();
    // The judge rounds a proportional change up, by a token of the old capacity.
    let rounds = !plan.schedule.is_empty() && plan.on_change == OnChange::Proportional;
    let vanishing = plan.mishaps.is_empty() && !rounds;
    for (bucket, books) in world.books.iter_mut().enumerate() {
        books.notes.sort_by_key(|(at, order, _)| (*at, *order));
        let notes: Vec<(u64, Note)> = books.notes.iter().map(|(at, _, note)| (*at, *note)).collect();
        let (first, worst) = oracle::judge(bucket, &promises, &notes, vanishing);
        broken.extend(first);
        outcome.worst = outcome.worst.max(worst);
        outcome.counts.admitted += books.told;
        if plan.steady {
            broken.extend(starved(plan, bucket, &notes));
        }
    }
    outcome.broken = broken.into_iter().min_by_key(|broken| broken.at);
    outcome
}

/// Law 2, of a bucket that is asked above its rate all the time.
fn starved(plan: &Plan, bucket: usize, notes: &[(u64, Note)]) -> Option<Broken> {
    let gap = plan.traffic.iter().map(|stream| match stream {
        crate::plan::Stream::Takes { gap, .. } => *gap,
        _ => 0,
    });
    // A token is taken by the next caller, and after the time of a settle.
    let meanwhile = 2 * gap.max().unwrap_or(0) + 5_000;
    let allowed = 1_000 + meanwhile * 1_000 / plan.terms.each();
    let (short, at) = oracle::short_of_rate(plan.terms, notes, plan.lasts / 2, plan.lasts);
    (short > allowed).then_some(Broken { bucket, at, law: Law::Starved(short) })
}

/// The last that happened to a bucket before a law was broken, for people to read.
pub fn story(plan: &Plan, fault: Option<Fault>, broken: &Broken) -> String {
    let mut world = World::new(plan.clone(), fault, true);
    let _ = catch_unwind(AssertUnwindSafe(|| world.run()));
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let after = number("TOPUP_SIM_AFTER").unwrap_or(0);
    let told: Vec<_> = world
        .story()
        .into_iter()
        .filter(|(at, bucket, _)| *bucket == broken.bucket && *at <= broken.at.saturating_add(after))
        .collect();
    let mut story = String::new();
    let _ = writeln!(
        story,
        "seed {}: {:?} of bucket {} at {} µs",
        plan.seed, broken.law, broken.bucket, broken.at
    );
    let _ = writeln!(
        story,
        "{} workers, {:?}, lease {:?}, {:?}, drift {} ppm, {:?}",
        plan.workers, plan.terms, plan.lease, plan.on_change, plan.drift, plan.network
    );
    let _ = writeln!(story, "{:?}, {:?}, {:?}", plan.traffic, plan.daemons, plan.mishaps);
    let lines = number("TOPUP_SIM_LINES").unwrap_or(LINES);
    for (at, _, line) in &told[told.len().saturating_sub(lines as usize)..] {
        let _ = writeln!(story, "{at:>12} µs  {line}");
    }
    let _ = write!(story, "replay with TOPUP_SIM_SEED={}", plan.seed);
    story
}
