//! Bursts of many workers at one bucket.

use topup_sim::{Ask, Mishap, Plan, Promise, SECOND, Stream, run, story};

const MS: u64 = 1_000;
/// 1,000 tokens, 1,000 a second.
const QUICK: Promise = Promise::new(1_000, 1_000, SECOND);
/// 1,000 tokens, 100 a second.
const SLOW: Promise = Promise::new(1_000, 100, SECOND);
/// 20 tokens, 10 a second: at rest these are numbers, and a burst empties the bucket.
const FEW: Promise = Promise::new(20, 10, SECOND);
/// Workers of a burst.
const WORKERS: [usize; 6] = [3, 4, 8, 16, 32, 64];
/// µs over which a burst is spread.
const SPREADS: [u64; 3] = [0, 90 * MS, 300 * MS];

/// One take of one token.
fn take(worker: usize, at: u64) -> Stream {
    Stream::Once { at, worker, ask: Ask::Take(1, 0) }
}

/// `takes` takes of one worker from `at` on, within `spread` µs.
fn burst(plan: &mut Plan, worker: usize, takes: u64, at: u64, spread: u64) {
    for i in 0..takes {
        // Anywhere in the spread, the same in each run.
        let within = (i * 7_919 + worker as u64 * 104_729 + plan.seed * 15_485_863) % (spread + 1);
        plan.traffic.push(take(worker, at + within));
    }
}

/// No law is broken, and admissions exceed the terms by less than a token.
#[track_caller]
fn holds(plan: &Plan) {
    let outcome = run(plan, None);
    let told = outcome.broken.as_ref().map(|broken| story(plan, None, broken));
    assert!(told.is_none(), "{}", told.unwrap_or_default());
    assert!(outcome.worst < 1_000, "{} thousandths of a token", outcome.worst);
    assert!(outcome.counts.admitted > 0);
}

/// Every worker takes one token, and all take 48 each some time later.
fn after_one_token_each(lease: Option<(u64, u64)>) {
    for (seed, workers) in (0..4).flat_map(|seed| WORKERS.map(|workers| (seed, workers))) {
        for spread in SPREADS {
            for later in [5 * MS, 40 * MS, 400 * MS, 1_100 * MS] {
                let mut plan = Plan::calm(seed, workers, QUICK);
                (plan.lease, plan.lasts) = (lease, 4 * SECOND);
                for worker in 0..workers {
                    plan.traffic.push(take(worker, SECOND));
                    burst(&mut plan, worker, 48, SECOND + later, spread);
                }
                holds(&plan);
            }
        }
    }
}

#[test]
fn a_burst_of_all_workers_after_one_token_each() {
    after_one_token_each(None);
}

#[test]
fn the_same_with_a_lease() {
    after_one_token_each(Some((1_000, SECOND)));
    after_one_token_each(Some((100, 100 * MS)));
}

/// Bursts of all workers, and rests in which the bucket fills again while they have leased tokens.
#[test]
fn bursts_and_rests_with_a_lease() {
    const PROMISE: Promise = Promise::new(500, 1_000, SECOND);
    for (seed, workers) in (0..12).flat_map(|seed| [2, 3, 8, 16].map(|workers| (seed, workers))) {
        for (lease, rest) in [((100, SECOND), 800), ((100, SECOND), 450), ((400, 300 * MS), 300)] {
            let mut plan = Plan::calm(seed, workers, PROMISE);
            (plan.lease, plan.lasts) = (Some(lease), 8 * SECOND);
            for round in 0..6 {
                let at = SECOND + round * (200 + rest) * MS;
                for worker in 0..workers {
                    // Some go on for longer than others.
                    let takes = 40 + (worker as u64 * 37 + round * 53 + seed * 11) % 160;
                    burst(&mut plan, worker, takes, at, (takes + 100) * MS);
                }
            }
            holds(&plan);
        }
    }
}

/// Workers that keep leased tokens for long while others take, settle and come back.
#[test]
fn leases_that_last_beside_takes_of_others() {
    const PROMISE: Promise = Promise::new(500, 50, SECOND);
    for (seed, workers) in (0..60).flat_map(|seed| [2, 3, 6].map(|workers| (seed, workers))) {
        let mut plan = Plan::calm(seed, workers, PROMISE);
        (plan.lease, plan.lasts) = (Some((100, 20 * SECOND)), 40 * SECOND);
        let mut random = seed * 7_919 + workers as u64;
        let mut next = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % most
        };
        for worker in 0..workers {
            for _ in 0..8 {
                let (at, takes) = (SECOND + next(25 * SECOND), 1 + next(120));
                burst(&mut plan, worker, takes, at, 300 * MS);
            }
            for _ in 0..12 {
                plan.traffic.push(Stream::Once {
                    at: SECOND + next(25 * SECOND),
                    worker,
                    ask: Ask::Take(1 + next(3), 0),
                });
            }
        }
        holds(&plan);
    }
}

/// Workers with leased tokens learn of each other's takes by a take of several, which leaves the leased ones in hand. Then
/// they rest until their tokens are about to end, and spend them.
#[test]
fn leases_that_outlast_takes_of_several() {
    const PROMISE: Promise = Promise::new(500, 50, SECOND);
    for (seed, workers) in (0..4).flat_map(|seed| [2, 3, 4].map(|workers| (seed, workers))) {
        // When all are spent, in ms after the last take.
        for rest in (1_000..9_000).step_by(250) {
            let mut plan = Plan::calm(seed, workers, PROMISE);
            (plan.lease, plan.lasts) = (Some((100, 20 * SECOND)), 20 * SECOND);
            for worker in 0..workers {
                burst(&mut plan, worker, 40, SECOND + worker as u64 * 400 * MS, 320 * MS);
                plan.traffic.push(Stream::Once {
                    at: 3 * SECOND + worker as u64 * MS,
                    worker,
                    ask: Ask::Take(2, 0),
                });
                burst(&mut plan, worker, 120 + 500 / workers as u64, (3_010 + rest) * MS, 300 * MS);
            }
            holds(&plan);
        }
    }
}

/// A bucket at rest from which each worker has taken now and then, and all take at once.
fn at_rest(spread: u64, later: &[u64]) {
    for (seed, workers) in (0..6).flat_map(|seed| WORKERS.map(|workers| (seed, workers))) {
        for later in later {
            let mut plan = Plan::calm(seed, workers, FEW);
            (plan.lasts, plan.drift) = (6 * SECOND, 500);
            for worker in 0..workers.min(8) {
                plan.traffic.push(take(worker, SECOND + worker as u64 * 120 * MS));
            }
            for round in 0..3 {
                for worker in 0..workers {
                    burst(&mut plan, worker, 3, 2 * SECOND + round * (100 * MS + later), spread);
                }
            }
            holds(&plan);
        }
    }
}

#[test]
fn a_burst_of_all_workers_at_a_bucket_at_rest() {
    at_rest(0, &[0, 99 * MS, 100 * MS, 101 * MS, 1_000 * MS]);
}

#[test]
fn a_burst_that_is_spread_over_the_last_of_a_bucket_at_rest() {
    at_rest(90 * MS, &[10 * MS, 400 * MS]);
    at_rest(300 * MS, &[10 * MS, 1_100 * MS]);
}

#[test]
fn a_raised_rate_of_a_bucket_at_rest() {
    for (seed, later) in (0..4).flat_map(|seed| [740, 760, 900, 1_300].map(|later| (seed, later * MS))) {
        let mut plan = Plan::calm(seed, 8, FEW);
        plan.lasts = 6 * SECOND;
        plan.mishaps.push((2 * SECOND, Mishap::Change(Promise::new(20, 100, SECOND), 0)));
        for worker in 0..8 {
            burst(&mut plan, worker, 1, 1_500 * MS, 400 * MS);
            burst(&mut plan, worker, 2, 2 * SECOND + later, 300 * MS);
            burst(&mut plan, worker, 10, 3 * SECOND + later, 30 * MS);
        }
        holds(&plan);
    }
}

#[test]
fn workers_that_empty_the_bucket_again_and_again() {
    for workers in WORKERS {
        for (spread, lease) in
            SPREADS.iter().flat_map(|spread| [(*spread, None), (*spread, Some((1_000, SECOND)))])
        {
            let mut plan = Plan::calm(9, workers, QUICK);
            (plan.lease, plan.lasts) = (lease, 5 * SECOND);
            for round in 1..=4 {
                for worker in 0..workers {
                    let takes = 1_500 / workers as u64;
                    burst(&mut plan, worker, takes, round * SECOND + round * 37 * MS, spread);
                }
            }
            holds(&plan);
        }
    }
}

/// One worker takes 500, another gives some back or fills the bucket, and the first comes back `later`, with all
/// others.
fn given_back(tokens: Option<u64>, lease: Option<(u64, u64)>) {
    for (seed, later) in (0..3).flat_map(|seed| {
        [3, 12, 20, 200, 700, 1_000, 1_260, 1_300, 1_400, 1_600, 2_500].map(|later| (seed, later * MS))
    }) {
        let mut plan = Plan::calm(seed, 6, SLOW);
        (plan.lease, plan.lasts) = (lease, 8 * SECOND);
        let ask = |at, worker, ask| Stream::Once { at, worker, ask };
        plan.traffic.push(ask(SECOND, 0, Ask::Take(440, 0)));
        burst(&mut plan, 0, 60, SECOND + 5 * MS, 100 * MS);
        plan.traffic.push(ask(SECOND + 150 * MS, 1, Ask::PutIn(tokens)));
        // Others take a few, so that it counts again.
        burst(&mut plan, 2, 8, SECOND + 150 * MS + later - later / 8, 3 * MS);
        for worker in [0, 0, 0, 1, 2, 3, 4, 5] {
            burst(&mut plan, worker, 150, SECOND + 150 * MS + later, 30 * MS);
        }
        holds(&plan);
    }
}

#[test]
fn a_refund_by_one_while_another_believes_the_bucket_half_empty() {
    given_back(Some(480), None);
    given_back(Some(20), None);
}

/// Takes that find the bucket full or nearly so, a little faster than the rate, over networks of all kinds: one by one,
/// or a few at once, which find the key of the first.
#[test]
fn what_a_first_take_is_early_does_not_add_up() {
    const TAKES: u64 = 1_000;
    for (trip, each, size) in
        [(1, 50, 1), (1, 500, 1), (2, 50, 1), (2, 50, 2), (2, 500, 2), (20, 50, 1), (20, 500, 3)]
    {
        for (sooner, workers) in
            [1, 2, 4, 10, 20, 35, 50].into_iter().flat_map(|sooner| [(sooner, 1), (sooner, 8)])
        {
            let mut plan = Plan::calm(sooner, workers, Promise::new(5, 1, each * MS));
            plan.network.trip = (trip * MS * 9 / 10, trip * MS);
            let apart = (size * each - sooner.min(each / 5)) * MS;
            plan.lasts = TAKES / size * apart;
            for i in size..TAKES {
                plan.traffic.push(take(i as usize % workers, i / size * apart));
            }
            holds(&plan);
        }
    }
}

/// Takes of many workers, refunds and resets of a bucket at rest.
#[test]
fn refunds_and_resets_of_a_bucket_at_rest() {
    for (seed, workers) in (0..6).flat_map(|seed| [4, 16, 64].map(|workers| (seed, workers))) {
        for tokens in [Some(1), Some(5), None] {
            let mut plan = Plan::calm(seed, workers, FEW);
            (plan.lasts, plan.drift) = (8 * SECOND, 500);
            for round in 0..30 {
                let at = SECOND + round * 200 * MS;
                for worker in 0..3 {
                    let worker = (round as usize * 7 + worker) % workers;
                    burst(&mut plan, worker, 1 + round % 4, at, 150 * MS);
                }
                if round % 3 == 0 {
                    let worker = round as usize % workers;
                    plan.traffic.push(Stream::Once { at: at + 70 * MS, worker, ask: Ask::PutIn(tokens) });
                }
            }
            holds(&plan);
        }
    }
}

#[test]
fn a_refund_while_another_has_a_lease() {
    given_back(Some(480), Some((1_000, SECOND)));
    given_back(Some(480), Some((300, 4 * SECOND)));
}

#[test]
fn a_reset_while_others_believe_the_bucket_half_empty() {
    given_back(None, None);
    given_back(None, Some((1_000, SECOND)));
}

/// The terms change to `terms`, and every worker bursts so long after the reload.
fn changed_to(terms: Promise) {
    for (lease, later) in [None, Some((1_000, SECOND))]
        .into_iter()
        .flat_map(|lease| [0, 250, 500, 740, 760, 900, 1_000, 1_300, 1_800].map(|later| (lease, later * MS)))
    {
        let mut plan = Plan::calm(later, 16, SLOW);
        (plan.lease, plan.lasts) = (lease, 6 * SECOND);
        plan.mishaps.push((2 * SECOND, Mishap::Change(terms, 0)));
        for worker in 0..16 {
            burst(&mut plan, worker, 30, SECOND, 200 * MS);
            burst(&mut plan, worker, 10, 1_700 * MS, 600 * MS);
            burst(&mut plan, worker, 100, 2 * SECOND + later, 90 * MS);
        }
        holds(&plan);
    }
}

#[test]
fn a_raised_rate_soon_after_the_reload() {
    changed_to(Promise::new(1_000, 5_000, SECOND));
}

#[test]
fn a_lowered_rate_and_capacity_soon_after_the_reload() {
    changed_to(Promise::new(200, 20, SECOND));
}
