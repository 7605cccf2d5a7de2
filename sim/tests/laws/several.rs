//! What takes of several tokens cost Redis, and what they get.

use topup_sim::{Ask, Counts, Plan, Promise, RunResult, SECOND, Stream, run};

use crate::asked::{asked_of, counts_of};

/// A bucket that takes leave far below full.
const TENANT: Promise = Promise::new(1_000_000, 1_000, SECOND);

/// Takes of up to `most` tokens each, a mean of `gap` µs apart, by any of the workers, for `lasts`.
fn asked(
    workers: usize,
    promise: Promise,
    (most, gap): (u64, u64),
    lasts: u64,
    lease: Option<u64>,
) -> Counts {
    asked_of(Plan::calm(1, workers, promise), (most, gap), lasts, lease.map(|max| (max, SECOND)))
}

#[test]
fn takes_of_several_from_a_busy_bucket_are_bare_commands() {
    for workers in [1, 4, 16] {
        let counts = asked(workers, TENANT, (20, 2_000), 20 * SECOND, None);
        println!("{workers} workers: {} scripts, {} bare commands", counts.settles, counts.decrements);
        assert!(counts.decrements > 9_000 && counts.settles * 50 < counts.decrements);
    }
}

#[test]
fn tasks_that_ask_at_once_share_one_command() {
    let mut plan = Plan::calm(1, 1, TENANT);
    plan.lasts = 4 * SECOND;
    let once = |at, count| Stream::Once { at, worker: 0, ask: Ask::Take(count, 0) };
    plan.traffic.push(once(SECOND, 100));
    plan.traffic.extend((0..200).map(|task| once(SECOND + 100_000, 1 + task % 7)));
    let counts = counts_of(&plan);
    assert_eq!(counts.admitted, 100 + (0..200).map(|task| 1 + task % 7).sum::<u64>());
    assert!(counts.settles + counts.decrements <= 5, "{counts:?}");
}

#[test]
fn leased_tokens_serve_takes_of_several() {
    for workers in [1, 4, 16] {
        let counts = asked(workers, TENANT, (20, 2_000), 20 * SECOND, Some(1_000));
        let commands = counts.settles + counts.decrements;
        println!("{workers} workers: {commands} commands, {} takes from memory", counts.spent_in_hand);
        assert!(commands < 900);
    }
}

/// Twice as many ask as there are tokens, so each token that is lost to a lease is missed.
#[test]
fn a_lease_gives_nearly_all_tokens_of_a_bucket_that_is_empty() {
    for (capacity, most, gap, percent) in [(1_000, 1, 500, 99), (100, 1, 5_000, 99), (1_000, 10, 2_000, 97)] {
        for workers in [1, 4, 16] {
            let admitted = |lease| {
                let promise = Promise::new(capacity, SECOND / gap / 2 * (1 + most) / 2, SECOND);
                asked(workers, promise, (most, gap), 20 * SECOND, lease).admitted
            };
            let (with, without) = (admitted(Some(100)), admitted(None));
            println!("{workers} workers, up to {most}: {with} tokens with a lease, {without} without");
            assert!(with * 100 >= without * percent);
        }
    }
}

#[test]
fn waiters_of_several_of_many_workers_get_what_the_limit_allows() {
    const LASTS: u64 = 20 * SECOND;
    for (workers, rate) in [(1, 100), (4, 100), (16, 100), (4, 30), (16, 30), (4, 300), (16, 300)] {
        let mut plan = Plan::calm(1, workers, Promise::new(20, rate, SECOND));
        plan.lasts = LASTS;
        // Twice as many as there are tokens.
        plan.traffic.push(Stream::Waiters { gap: SECOND * 3 / rate / 2, most: 5, patience: SECOND });
        let (admitted, ideal) = (counts_of(&plan).admitted, 20 + rate * LASTS / SECOND);
        println!("{workers} workers, {rate}/s: {admitted} of {ideal} tokens");
        assert!(admitted * 100 >= ideal * 99);
    }
}

/// A bucket for waiters.
const BUSY: Promise = Promise::new(20, 100, SECOND);
/// The same, with one token at most.
const ONE: Promise = Promise::new(1, 10, SECOND);

/// A bucket for waiters that want the tokens of seconds.
const LONG: Promise = Promise::new(100, 10, SECOND);
/// Limits whose tokens come seconds apart.
const SLOW: [Promise; 3] =
    [Promise::new(1, 1, 5 * SECOND), Promise::new(3, 1, 2 * SECOND), Promise::new(1, 2, 50 * SECOND)];

/// When callers come in runs of waiters.
const FROM: u64 = SECOND;

/// The first of `workers` take all the time, and the others have callers that wait for `count` tokens, as many as there are tokens.
fn waiters(takers: usize, waiters: usize, count: u64, promise: Promise) -> Plan {
    let mut plan = Plan::calm(1, takers + waiters, promise);
    let until = FROM + promise.time_of((10 * count * waiters.max(2) as u64).max(60)).max(18 * SECOND);
    plan.lasts = until + SECOND;
    let once = |at, worker, ask| Stream::Once { at, worker, ask };
    let instants = |gap| (0..(until - FROM) / gap).map(move |turn| FROM + turn * gap);
    for worker in 0..takers {
        plan.traffic.extend(instants(2_000).map(|at| once(at, worker, Ask::Take(1, 0))));
    }
    for worker in takers..takers + waiters {
        let gap = promise.interval * count / promise.tokens;
        plan.traffic.extend(instants(gap).map(|at| once(at, worker, Ask::Take(count, until - at))));
    }
    plan
}

#[test]
fn waiters_get_a_part_beside_takes_that_never_end() {
    let busy = [(1, 1, 1), (1, 1, 5), (1, 1, 12), (1, 1, 20), (4, 1, 5), (4, 4, 12), (16, 1, 5)];
    let for_long = [(1, 1, 15), (1, 1, 30), (1, 1, 100), (4, 1, 50), (4, 4, 30), (16, 1, 20)];
    let cases = busy.map(|case| (case, BUSY)).into_iter().chain(for_long.map(|case| (case, LONG)));
    for ((takers, many, count), promise) in cases {
        let RunResult { broken, counts, waited_for, .. } = run(&waiters(takers, many, count, promise), None);
        assert!(broken.is_none(), "{broken:?}");
        let (waited_for, Counts { admitted, reservations, .. }) = (waited_for.iter().sum::<u64>(), counts);
        println!(
            "{takers} takers, {many} waiters for {count}: {waited_for} of {admitted}, {reservations} reservations"
        );
        assert!(waited_for * 4 >= admitted);
    }
}

#[test]
fn waiters_of_many_workers_get_equal_parts() {
    let cases =
        [(4, 1), (16, 1), (4, 5), (16, 5), (4, 12), (4, 20)].map(|(workers, count)| (workers, count, BUSY));
    let slow = SLOW.iter().flat_map(|slow| [(4, 1, *slow), (8, 1, *slow)]);
    let for_long = [(4, 30), (16, 30), (4, 100)].map(|(workers, count)| (workers, count, LONG));
    for (workers, count, promise) in
        cases.into_iter().chain(for_long).chain([(4, 1, ONE), (8, 1, ONE)]).chain(slow)
    {
        let RunResult { broken, waited_for, .. } = run(&waiters(0, workers, count, promise), None);
        assert!(broken.is_none(), "{broken:?}");
        let (least, most) = (waited_for.iter().min().unwrap(), waited_for.iter().max().unwrap());
        println!("{workers} waiters for {count}: {least} to {most} tokens each");
        assert!(least * 3 >= most * 2);
    }
}
