//! Refunds beside callers that leave: their tokens are on the way back while others refund.

use topup_sim::{Ask, Fault, Law, Mishap, Network, Plan, Promise, SECOND, Stream, run};

use crate::asked::counts_of;

const MS: u64 = 1_000;
/// Limits whose tokens go back in any case, since they come slowly.
const SLOW: [Promise; 5] = [
    Promise::new(8, 1, SECOND),
    Promise::new(4, 2, SECOND),
    Promise::new(2, 1, SECOND),
    Promise::new(20, 1, SECOND),
    Promise::new(8, 1, 2 * SECOND),
];
/// Limits with tokens that come several seconds apart.
const SLOWER: [Promise; 3] =
    [Promise::new(1, 1, 5 * SECOND), Promise::new(3, 1, 2 * SECOND), Promise::new(2, 2, 50 * SECOND)];
/// Limits whose tokens go back only where no other worker has taken since.
const FAST: [Promise; 3] =
    [Promise::new(10, 10, SECOND), Promise::new(100, 50, SECOND), Promise::new(50, 200, SECOND)];
const WORKERS: [usize; 4] = [1, 4, 16, 64];
/// Seeds of each terms and number of workers.
const SEEDS: u64 = 12;

/// All callers want up to a whole bucket. Many leave while a command for them is in flight.
fn plan(seed: u64, workers: usize, terms: Promise) -> Plan {
    let mut plan = Plan::calm(seed, workers, terms);
    plan.network = Network { trip: (3 * MS, 40 * MS), ..Network::CALM };
    plan.lasts = terms.time_of(40).max(10 * SECOND);
    let gap = (30 + seed * 7_919 % 400) * MS;
    let patience = [50 * MS, 400 * MS, 3 * SECOND][seed as usize % 3];
    let waiters = |patience| Stream::Waiters { gap, most: terms.capacity, patience };
    let refunds = Stream::Refunds { gap: gap / 2, most: terms.capacity };
    plan.traffic = vec![waiters(patience), waiters(50 * MS), Stream::Takes { gap, most: 2 }, refunds];
    plan
}

fn plans(terms: &[Promise]) -> impl Iterator<Item = Plan> {
    let each = || terms.iter().flat_map(|terms| WORKERS.map(|workers| (workers, *terms)));
    (0..SEEDS).flat_map(move |seed| each().map(move |(workers, terms)| plan(seed, workers, terms)))
}

#[test]
fn what_leaves_and_comes_back_beside_refunds_is_no_more_than_there_was() {
    for plan in plans(&SLOW).chain(plans(&FAST)) {
        counts_of(&plan);
    }
}

#[test]
fn nor_beside_resets() {
    for mut plan in plans(&SLOW) {
        plan.traffic.push(Stream::Resets { gap: 700 * MS });
        counts_of(&plan);
    }
}

#[test]
fn nor_while_tokens_are_leased() {
    for mut plan in plans(&SLOW).chain(plans(&FAST)) {
        let ttl = [10 * MS, 300 * MS, 4 * SECOND][plan.seed as usize % 3];
        plan.lease = Some((100, ttl));
        counts_of(&plan);
    }
}

#[test]
fn nor_while_the_terms_change() {
    for mut plan in plans(&SLOW).chain(plans(&FAST)) {
        let Promise { capacity, tokens, interval } = plan.terms;
        let changed = [
            Promise::new(capacity * 2, tokens, interval),
            Promise::new((capacity / 2).max(1), tokens, interval),
            Promise::new(capacity, tokens * 3, interval),
        ];
        let at = 4 * SECOND;
        plan.mishaps = vec![
            (at, Mishap::Change(changed[plan.seed as usize % 3], 0)),
            (at + 3 * SECOND, Mishap::Change(plan.terms, 0)),
        ];
        counts_of(&plan);
    }
}

#[test]
fn unused_tokens_that_go_back_in_any_case_are_found() {
    let over = |plan: &Plan| run(plan, Some(Fault::UnusedAlways)).broken.map(|broken| broken.law);
    let most = plans(&SLOW).filter_map(|plan| over(&plan)).map(|law| match law {
        Law::Over(thousandths) => thousandths,
        other => panic!("{other:?}"),
    });
    assert!(most.max().is_some_and(|most| most > 1_000));
}

/// Takes beyond the limit, so that waiters reserve.
fn plans_that_reserve() -> impl Iterator<Item = Plan> {
    plans(&FAST).map(|mut plan| {
        plan.traffic.push(Stream::Takes { gap: plan.terms.each().max(5 * MS) / 2, most: 1 });
        plan.traffic.push(Stream::Waiters {
            gap: 100 * MS,
            most: plan.terms.capacity.div_ceil(2),
            patience: 3 * SECOND,
        });
        plan.traffic.push(Stream::Resets { gap: 2 * SECOND });
        plan
    })
}

/// The same with limits of which a single token is reserved, for longer than those of faster ones.
fn plans_that_reserve_for_long() -> impl Iterator<Item = Plan> {
    plans(&SLOWER).map(|mut plan| {
        let each = plan.terms.each();
        plan.traffic = vec![
            Stream::Takes { gap: each / 3, most: 1 },
            Stream::Waiters { gap: each / 2, most: 1, patience: 3 * each },
            Stream::Refunds { gap: each * 4, most: 1 },
        ];
        plan
    })
}

/// A worker leases tokens, others empty the bucket, and one reserves. Tokens are put in at each of many instants, and the leased
/// ones are spent right then.
fn plans_that_reserve_beside_a_lease() -> impl Iterator<Item = Plan> {
    (0..40).map(|turn| {
        let mut plan = Plan::calm(turn, 3, Promise::new(500, 100, SECOND));
        plan.lasts = 8 * SECOND;
        plan.lease = Some((50, 8 * SECOND));
        let mut once = |at, worker, ask| plan.traffic.push(Stream::Once { at, worker, ask });
        (0..400).for_each(|take| once(SECOND + take * MS, 0, Ask::Take(1, 0)));
        (0..800).for_each(|take| once(1_410 * MS + take * 2 * MS, 1, Ask::Take(1, 0)));
        (0..8).for_each(|wait| once(1_700 * MS + wait * 200 * MS, 2, Ask::Take(20, 3 * SECOND)));
        let put_in_at = 2_800 * MS + turn * 50 * MS;
        once(put_in_at, 1, Ask::PutIn(None));
        (0..60).for_each(|take| once(put_in_at + 20 * MS + take * 100, 0, Ask::Take(1, 0)));
        (0..500).for_each(|take| once(put_in_at + 50 * MS + take * MS, 1, Ask::Take(1, 0)));
        plan
    })
}

#[test]
fn nor_while_waiters_reserve() {
    let reserved = |plan: Plan| counts_of(&plan).reservations;
    let alone: u64 = plans_that_reserve().map(reserved).sum();
    let for_long: u64 = plans_that_reserve_for_long().map(reserved).sum();
    let beside: u64 = plans_that_reserve_beside_a_lease().map(reserved).sum();
    println!("{alone} reservations, {for_long} for long, {beside} beside a lease");
    assert!(alone > 1_000 && for_long > 500 && beside > 40);
}

#[test]
fn put_ins_beside_reserved_tokens_are_found() {
    let found = found_by(plans_that_reserve(), Fault::ReservationUnheld);
    let for_long = found_by(plans_that_reserve_for_long(), Fault::ReservationUnheld);
    println!("{found} plans find it, and {for_long} of those for long");
    assert!(found > 0 && for_long > 0);
}

#[test]
fn put_ins_beside_leased_tokens_after_reserved_ones_are_found() {
    let found = found_by(plans_that_reserve_beside_a_lease(), Fault::LeaseForgotten);
    println!("{found} plans find it");
    assert!(found > 0);
}

/// The number of plans that find a fault.
fn found_by(plans: impl Iterator<Item = Plan>, fault: Fault) -> usize {
    let broken = plans.filter_map(|plan| run(&plan, Some(fault)).broken.map(|broken| broken.law));
    broken.filter(|law| matches!(law, Law::Over(_))).count()
}
