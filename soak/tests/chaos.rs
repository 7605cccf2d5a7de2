//! A handful of runs, side by side. `scripts/soak` makes more of them, and longer ones.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::{path::Path, time::Duration};

use tokio::sync::watch;
use topup_soak::{
    plan::{Kind, Network, Plan, Target},
    run::{finish, remember_panics, start},
};
use topup_tests::Daemon;

/// Seeds whose plans have, together, most kinds of faults.
const SEEDS: [u64; 3] = [3, 7, 11];

#[test]
fn no_law_is_broken_under_faults() {
    remember_panics();
    // Worker processes are this program's, and daemons run beside it.
    let program = Path::new(env!("CARGO_BIN_EXE_topup-soak"));
    let _ = Daemon::program();
    let (_stop, told) = watch::channel(false);
    let mut plans: Vec<Plan> = SEEDS.into_iter().map(Plan::of).collect();
    // Every second is credited once, whichever daemon is killed.
    plans.push(Plan::kills(1, Duration::from_secs(4), Duration::from_millis(250)));
    let runs: Vec<_> = plans.iter().map(|plan| start(plan.clone(), program, told.clone())).collect();
    for (plan, run) in plans.iter().zip(runs) {
        let judged = finish(run).unwrap();
        assert!(
            judged.broken.is_empty(),
            "{plan}\n{:#?}\n{}\nreplay: scripts/soak --seed {} --runs 1",
            judged.broken,
            judged.logs.join("\n"),
            plan.seed
        );
        assert!(judged.calls > 500 && judged.admitted > 300, "{plan}: {judged:?}");
    }
}

#[test]
fn a_plan_is_a_function_of_its_seed() {
    let plans: Vec<Plan> = (0..200).map(Plan::of).collect();
    assert!(plans.iter().all(|plan| *plan == Plan::of(plan.seed)));
    let faults = || plans.iter().flat_map(|plan| plan.faults.iter().map(|fault| fault.kind));
    for kind in [
        Kind::FlushScripts,
        Kind::Reload,
        Kind::BadReload,
        Kind::Kill(Target::Redis),
        Kind::Kill(Target::Worker(1)),
        Kind::Stop(Target::Redis),
        Kind::Stop(Target::Worker(2)),
        Kind::Stop(Target::Daemon(2)),
        Kind::Term(Target::Daemon(0)),
        Kind::Network(Target::Redis, Network::HalfOpen),
        Kind::Network(Target::Worker(0), Network::Hang),
        Kind::Network(Target::Daemon(1), Network::LoseAnswers),
    ] {
        assert!(faults().any(|fault| fault == kind), "{kind:?}");
    }
}
