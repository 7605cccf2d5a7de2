//! Scheduled changes of terms hold without a daemon.

use topup_sim::{Ask, Fault, Law, Plan, Promise, SECOND, Stream, run, story};

use crate::asked::counts_of;

#[test]
fn scheduled_changes_hold_without_a_daemon() {
    for (workers, seeds) in [(1, 20), (4, 20), (16, 10), (64, 2)] {
        for seed in 0..seeds {
            let plan = Plan::over_boundaries(seed, workers);
            if let Some(broken) = run(&plan, None).broken {
                panic!("{workers} workers: {}", story(&plan, None, &broken));
            }
        }
    }
}

#[test]
fn each_planted_fault_of_schedules_is_found() {
    for fault in [Fault::ScheduleIgnored, Fault::ChangeAheadUnseen] {
        let law = |seed| Some(run(&Plan::over_boundaries(seed, 4), Some(fault)).broken?.law);
        println!("{fault:?}: {:?}", (0..100).find_map(law).expect("some seed finds it"));
    }
    // The bucket is empty before a cut, and nobody asks until it would have been full without the cut.
    let mut plan = Plan::calm(1, 1, Promise::new(100, 100, SECOND));
    plan.daemons.many = 0;
    plan.lasts = 6 * SECOND;
    plan.schedule = vec![(3 * SECOND, Promise::new(100, 5, SECOND))];
    let at_once = |at, tokens| Stream::Once { at, worker: 0, ask: Ask::Take(tokens, 0) };
    plan.traffic = vec![at_once(5 * SECOND / 2, 100), at_once(4 * SECOND, 100)];
    assert_eq!(run(&plan, None).broken, None);
    let broken = run(&plan, Some(Fault::ChangeAheadForgotten)).broken.expect("the fault is found");
    assert!(matches!(broken.law, Law::Over(_)), "{broken:?}");
}

/// Tokens are reserved for longer than a change is announced before, and come later than promised after it.
#[test]
fn reserved_tokens_are_good_under_their_own_terms_only() {
    let mut reservations = 0;
    for seed in 0..60 {
        let (fast, slow) = (Promise::new(1, 1, 4 * SECOND), Promise::new(1, 1, 25 * SECOND));
        for workers in [2, 4, 16] {
            let mut plan = Plan::calm(seed, workers, fast);
            plan.lasts = 60 * SECOND;
            plan.daemons.many = seed % 2;
            plan.schedule = vec![(20 * SECOND + seed * SECOND / 15, slow)];
            plan.traffic = vec![
                Stream::Waiters { gap: SECOND, most: 1, patience: 15 * SECOND },
                Stream::Takes { gap: SECOND / 4, most: 1 },
            ];
            reservations += counts_of(&plan).reservations;
        }
    }
    println!("{reservations} reservations");
    assert!(reservations > 500);
}

/// A worker that knows no earlier terms takes from a bucket that counts under them still.
#[test]
fn a_worker_that_starts_after_a_change_costs_no_tokens() {
    for (capacity, after) in [(1_000, 50), (1_000, 200), (500, 100)] {
        let mut plan = Plan::calm(1, 2, Promise::new(1_000, 100, SECOND));
        plan.lasts = 8 * SECOND;
        plan.schedule = vec![(5 * SECOND / 2, Promise::new(capacity, after, SECOND))];
        // It makes the change, and migrates no bucket.
        plan.daemons.pass = (20 * SECOND, 20 * SECOND);
        let once = |at, worker, ask| Stream::Once { at, worker, ask };
        plan.traffic.extend((0..700).map(|take| once(SECOND + take * 2_000, 0, Ask::Take(1, 0))));
        plan.traffic.push(once(4 * SECOND, 1, Ask::Take(1, 0)));
        counts_of(&plan);
    }
}

#[test]
fn the_rate_changes_at_the_boundary_for_all_workers() {
    let (fast, slow) = (Promise::new(10, 100, SECOND), Promise::new(10, 10, SECOND));
    for (before, after, workers, most) in
        [(fast, slow, 1, 1), (slow, fast, 4, 1), (fast, slow, 16, 2), (slow, fast, 64, 2)]
    {
        let mut plan = Plan::calm(7, workers, before);
        plan.daemons.many = 0;
        plan.lasts = 6 * SECOND;
        plan.schedule = vec![(3 * SECOND, after)];
        plan.traffic = vec![Stream::Takes { gap: 1_000, most }];
        let admitted = run(&plan, None).counts.admitted;
        assert!((335..=341).contains(&admitted), "{admitted} of 340, {workers} workers");
        let ignored = run(&plan, Some(Fault::ScheduleIgnored)).counts.admitted;
        println!("{workers} workers: {admitted} of 340; {ignored} without the schedule");
    }
}
