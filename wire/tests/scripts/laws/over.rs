//! Law 1: never over, in any window.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};

use topup_wire::{bucket::Operation, limit::Limit};

use super::{
    oracle::Oracle,
    scene::Scene,
    worker::{Answer, Worker},
};
use crate::{
    generators::{limit, seeds},
    server::Redis,
};

const RUNS: u64 = 12;
const STEPS: usize = 120;
const WORKERS: usize = 3;
const RATES: [&str; 9] = ["1/s", "3/s", "7/min", "1000/h", "50/s", "997/s", "999999/d", "1/d", "1000003/s"];

/// Most µs of a pass. Generous, for a busy machine.
const A_PASS: u64 = 100_000;

/// The refilling of the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Daemon {
    /// None.
    Gone,
    /// A daemon that keeps its tick.
    Steady,
    /// A daemon, whenever it likes.
    Unsteady,
}

/// The bound holds without the tick that the law allows, and without a daemon. A worker settles a bucket that may be
/// full, and the settle drops the tokens above the capacity.
#[tokio::test]
async fn what_is_admitted_is_at_most_capacity_and_rate() {
    for daemon in [Daemon::Gone, Daemon::Unsteady] {
        let mut redis = Redis::start().await;
        for (_seed, mut rng) in seeds(RUNS) {
            let mut run = Run::new(redis, tight(&mut rng)).await;
            for _ in 0..STEPS {
                run.step(&mut rng, daemon, 0).await;
            }
            // The way to Redis takes real time here too, and may end just after the bucket was full.
            run.assert_at_most(run.late(), daemon);
            redis = run.scene.redis;
        }
    }
}

/// A command on its way while the bucket becomes full takes tokens that would have been dropped. They are at most those
/// of that time, for any number of workers.
#[tokio::test]
async fn a_slow_way_to_redis_gives_what_comes_meanwhile_at_most() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let mut run = Run::new(redis, tight(&mut rng)).await;
        let (n, p) = run.scene.pace();
        let slow = (p / n * rng.random_range(1..5)).max(1);
        for _ in 0..STEPS {
            run.step(&mut rng, Daemon::Gone, slow).await;
        }
        run.assert_at_most(run.late(), Daemon::Gone);
        redis = run.scene.redis;
    }
}

/// One worker puts tokens back, and the others do not hear of it for a second.
#[tokio::test]
async fn a_worker_that_has_not_heard_of_a_put_back_takes_none_of_it() {
    let mut scene = Scene::set(Redis::start().await, limit(50, "50/s")).await;
    let mut oracle = Oracle::new(50, scene.pace());
    let mut unaware = Worker::default();
    let first = scene.settle("a", Operation::Lease(45)).await;
    oracle.admitted(first.now, first.now, 45);
    let Answer::Admitted(from, to) = unaware.take(&mut scene, "a", 1, 0).await else { panic!("denied") };
    oracle.admitted(from, to, 1);
    scene.settle("a", Operation::Refund(43)).await;
    oracle.put_back(43);
    // Full in a moment, and in use by another worker.
    let more = scene.settle("a", Operation::Lease(8)).await;
    oracle.admitted(more.now, more.now, 8);
    scene.pass(700_000).await;
    while let Answer::Admitted(from, to) = unaware.take(&mut scene, "a", 1, 0).await {
        oracle.admitted(from, to, 1);
    }
    assert!(oracle.over() <= 0, "{} tokens over", oracle.tokens(oracle.over()));
}

/// Without catch-up, tokens come at the daemon's ticks. A bucket that was not due at one tick gets the tokens of two at
/// the next. A window may have so many more.
#[tokio::test]
async fn the_pure_form_gives_two_ticks_more_at_most() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let mut pure = limit(rng.random_range(1..=1_000), RATES.choose(&mut rng).unwrap());
        pure.catch_up = false;
        let tick = pure.tick.as_micros() as u64;
        let mut run = Run::new(redis, pure).await;
        let mut left = tick;
        let mut passes = vec![run.scene.now().await; 2];
        for _ in 0..STEPS {
            let by = rng.random_range(0..=left);
            run.scene.pass(by).await;
            left -= by;
            if rng.random_bool(0.5) {
                run.scene.pass(left).await;
                passes.push(run.scene.now().await);
                run.scene.refill(1).await;
                left = tick;
            }
            run.step(&mut rng, Daemon::Steady, 0).await;
        }
        passes.push(run.scene.now().await);
        let two_ticks = passes.windows(3).map(|pass| pass[2] - pass[0]).max().unwrap();
        run.assert_at_most(two_ticks + A_PASS, Daemon::Steady);
        redis = run.scene.redis;
    }
}

/// One bucket and its workers.
struct Run {
    scene: Scene,
    oracle: Oracle,
    workers: [Worker; WORKERS],
    /// Tokens taken and not put back.
    taken: u64,
}

/// A limit whose bucket is soon empty and soon full.
fn tight(rng: &mut StdRng) -> Limit {
    let most = *[2, 10, 50].choose(rng).unwrap();
    limit(rng.random_range(1..=most), RATES.choose(rng).unwrap())
}

// === impl Run ===

impl Run {
    async fn new(redis: Redis, limit: Limit) -> Self {
        let capacity = limit.terms.capacity.get();
        let scene = Scene::set(redis, limit).await;
        let oracle = Oracle::new(capacity, scene.pace());
        Self { scene, oracle, workers: Default::default(), taken: 0 }
    }

    async fn step(&mut self, rng: &mut StdRng, daemon: Daemon, slow: u64) {
        let capacity = self.scene.limit.terms.capacity.get();
        match rng.random_range(0..10) {
            0..6 => {
                for _ in 0..rng.random_range(1..=capacity) {
                    let count = if rng.random_bool(0.8) { 1 } else { rng.random_range(1..=capacity) };
                    let on_its_way = if slow > 0 { rng.random_range(0..=slow) } else { 0 };
                    let worker = &mut self.workers[rng.random_range(0..WORKERS)];
                    let answer = worker.take(&mut self.scene, "a", count, on_its_way).await;
                    let Answer::Admitted(from, to) = answer else { break };
                    self.oracle.admitted(from, to, count);
                    self.taken += count;
                }
            }
            6..8 if daemon == Daemon::Unsteady => drop(self.scene.refill(1).await),
            8 if daemon != Daemon::Steady && self.taken > 0 => {
                let count = rng.random_range(1..=self.taken);
                self.workers[rng.random_range(0..WORKERS)].refund(&mut self.scene, "a", count).await;
                self.oracle.put_back(count);
                self.taken -= count;
            }
            _ if daemon == Daemon::Steady => {}
            _ => {
                // Mostly until the bucket is about full, where windows are tight.
                let (n, p) = self.scene.pace();
                let until_full = u128::from(capacity) * u128::from(p) / u128::from(n);
                self.scene.pass_about(rng.random_range(0..=until_full as u64 + p / n)).await;
            }
        }
    }

    /// The latest bare `DECR`, in µs after the bucket could have been full.
    fn late(&self) -> u64 {
        self.workers.iter().map(|worker| worker.late).max().unwrap_or(0)
    }

    fn assert_at_most(&self, micros: u64, daemon: Daemon) {
        let (over, allowed) = (self.oracle.over(), micros + self.scene.slips);
        let tokens = self.oracle.tokens(over);
        let limit = &self.scene.limit.terms;
        assert!(
            over <= i128::from(allowed),
            "{over} µs ({tokens} tokens) over, not {allowed}: {limit:?}, {daemon:?}"
        );
    }
}
