//! Refunds beside callers that leave: their tokens are on the way back while others refund.

use topup_sim::{Fault, Law, Network, Plan, Promise, SECOND, Stream, run, story};

const MS: u64 = 1_000;
/// Limits whose tokens go back in any case, since they come slowly.
const TERMS: [Promise; 5] = [
    Promise::new(8, 1, SECOND),
    Promise::new(4, 2, SECOND),
    Promise::new(2, 1, SECOND),
    Promise::new(20, 1, SECOND),
    Promise::new(8, 1, 2 * SECOND),
];
const WORKERS: [usize; 4] = [1, 4, 16, 64];
/// Seeds of each terms and number of workers.
const SEEDS: u64 = 30;

/// All callers want up to a whole bucket. Many leave while a command for them is in flight.
fn plan(seed: u64, workers: usize, terms: Promise) -> Plan {
    let mut plan = Plan::calm(seed, workers, terms);
    plan.network = Network { trip: (3 * MS, 40 * MS), ..Network::CALM };
    plan.lasts = terms.time_of(40);
    let gap = (30 + seed * 7_919 % 400) * MS;
    let patience = [50 * MS, 400 * MS, 3 * SECOND][seed as usize % 3];
    let waiters = |patience| Stream::Waiters { gap, most: terms.capacity, patience };
    let refunds = Stream::Refunds { gap: gap / 2, most: terms.capacity };
    plan.traffic = vec![waiters(patience), waiters(50 * MS), Stream::Takes { gap, most: 2 }, refunds];
    plan
}

fn plans() -> impl Iterator<Item = Plan> {
    let terms = || TERMS.into_iter().flat_map(|terms| WORKERS.map(|workers| (workers, terms)));
    (0..SEEDS).flat_map(move |seed| terms().map(move |(workers, terms)| plan(seed, workers, terms)))
}

#[test]
fn what_leaves_and_comes_back_beside_refunds_is_no_more_than_there_was() {
    for plan in plans() {
        let told = run(&plan, None).broken.map(|broken| story(&plan, None, &broken));
        assert!(told.is_none(), "{}", told.unwrap_or_default());
    }
}

#[test]
fn unused_tokens_that_go_back_in_any_case_are_found() {
    let over = |plan: &Plan| run(plan, Some(Fault::UnusedAlways)).broken.map(|broken| broken.law);
    let most = plans().filter_map(|plan| over(&plan)).map(|law| match law {
        Law::Over(thousandths) => thousandths,
        other => panic!("{other:?}"),
    });
    assert!(most.max().is_some_and(|most| most > 1_000));
}
