//! Laws 1 and 2 where buckets at rest are taken from by one bare command.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use redis::{Value, from_redis_value};
use topup_wire::{
    bucket::{Operation, Pace},
    limit::{Algorithm, Limit},
    reply::Verdict,
    scripts::{self, AtRestNumber, time_at_rest},
};

use super::{
    oracle::Oracle,
    scene::Scene,
    worker::{Answer, Worker},
};
use crate::{
    generators::{limit, seeds},
    server::Redis,
};

const RUNS: u64 = 20;
const STEPS: usize = 150;
const RATES: [&str; 11] =
    ["1/s", "60/min", "1000/h", "1/d", "50/s", "100/s", "250/s", "1/7d", "7/d", "30/s", "300/s"];
/// A key outlives the fullness of its bucket by so many µs at most. A take then moves a full instant of the past.
const LIVES_ON: u64 = 1_000;
/// With an instant so close, in µs, a key may be gone before it is told to live longer. Generous, for a machine that is
/// busy.
const CLOSE: u64 = 20_000;
/// Most µs from reading the time to the command. A command that takes longer shows in its reply.
const MARGIN: u64 = 3_000;

/// A correction that is still to be sent.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// To give back so many tokens of a take, and to settle for as many. The take left the bucket full at this instant.
    Give(u64, u64),
    /// To let the key live until an instant of the scene, for so many tokens.
    Live(u64, u64),
    /// To settle for so many tokens.
    Settle(u64),
}

/// One bucket and its workers.
struct Run {
    scene: Scene,
    oracle: Oracle,
    /// Corrections that workers have still to send.
    left: Vec<Left>,
    /// Workers that do not.
    others: [Worker; 2],
    /// µs by which commands came too late for the instant that they name.
    late: u64,
    /// Takes of buckets at rest that were granted, and those that were not.
    taken: [u64; 2],
    /// Tokens taken and not put back.
    admitted: u64,
    /// Whether a settle may have the bucket count.
    may_count: bool,
}

/// Holds for any workers, and for any order of their commands.
#[tokio::test]
async fn takes_at_rest_admit_at_most_capacity_and_rate() {
    let (mut redis, mut taken) = (Redis::start().await, [0; 2]);
    // A worker settles for its tokens in doubt there, and sends no such take again.
    if redis.is_too_old().await {
        return eprintln!("void: takes at rest need Redis 7.0");
    }
    for (_seed, mut rng) in seeds(RUNS) {
        let mut run = Run::new(redis, any_limit(&mut rng), rng.random_bool(0.5)).await;
        for _ in 0..STEPS {
            run.step(&mut rng).await;
        }
        run.finish().await;
        let late = run.others.iter().map(|worker| worker.late).max().unwrap();
        let allowed = (late + run.late + LIVES_ON + run.scene.slips) * run.pace().n;
        let (over, terms) = (run.oracle.over(), &run.scene.limit.terms);
        let tokens = run.oracle.tokens(over);
        assert!(over <= i128::from(allowed), "{over} ({tokens} tokens) over, not {allowed}: {terms:?}");
        taken = [taken[0] + run.taken[0], taken[1] + run.taken[1]];
        redis = run.scene.redis;
    }
    assert!(taken.iter().all(|taken| *taken > 0), "{taken:?} granted and not");
}

/// Tokens that are given back at once are lost to no worker.
#[tokio::test]
async fn a_bucket_at_rest_asked_continuously_gives_its_rate() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let mut run = Run::new(redis, any_limit(&mut rng), false).await;
        for _ in 0..STEPS / 2 {
            let wait = loop {
                run.take_at_rest(1, true).await;
                if let Some(wait) = run.finish().await {
                    break wait;
                }
            };
            run.scene.pass([wait / 3, wait, wait, wait + wait / 2][rng.random_range(0..4)]).await;
        }
        let (under, terms) = (run.oracle.under(), &run.scene.limit.terms);
        // A take counts up to 1/100 µs too much where the time of a token is no whole number of µs.
        let n = i128::from(run.pace().n);
        let allowed = if n > 1 { STEPS as i128 * n / 100 + n } else { 0 };
        assert!(under <= allowed, "{under} ({} tokens) under: {terms:?}", run.oracle.tokens(under));
        redis = run.scene.redis;
    }
}

/// A limit whose bucket is soon empty and soon full.
fn any_limit(rng: &mut StdRng) -> Limit {
    limit(rng.random_range(3..=20), RATES.choose(rng).unwrap())
}

// === impl Run ===

impl Run {
    async fn new(redis: Redis, limit: Limit, may_count: bool) -> Self {
        let scene = Scene::set(redis, limit).await;
        let oracle = Oracle::new(scene.limit.terms.capacity.get(), scene.pace());
        let (left, others) = (Vec::new(), Default::default());
        Self { scene, oracle, left, others, late: 0, taken: [0; 2], admitted: 0, may_count }
    }

    fn pace(&self) -> Pace {
        let (n, p) = self.scene.pace();
        Pace { n, p }
    }

    /// µs in which `count` tokens come.
    fn time_of(&self, count: u64) -> u64 {
        time_at_rest(self.pace(), count)
    }

    async fn step(&mut self, rng: &mut StdRng) {
        self.follow_close().await;
        let capacity = self.scene.limit.terms.capacity.get();
        let count = if rng.random_bool(0.7) { 1 } else { rng.random_range(1..=capacity) };
        match rng.random_range(0..20) {
            0..9 => self.take_at_rest(count, rng.random_bool(0.5)).await,
            9..14 if !self.left.is_empty() => {
                let next = rng.random_range(0..self.left.len());
                let left = self.left.swap_remove(next);
                self.follow(left).await;
            }
            9..14 => drop(self.settle(count).await),
            14 => drop(self.scene.refill(1).await),
            15 if self.admitted > 0 => {
                let back = rng.random_range(1..=self.admitted);
                self.others[0].refund(&mut self.scene, "a", back).await;
                self.oracle.put_back(back);
                self.admitted -= back;
            }
            16 if self.may_count => {
                let other = &mut self.others[rng.random_range(0..2)];
                if let Answer::Admitted(from, to) = other.take(&mut self.scene, "a", 1, 0).await {
                    self.admit(from, to, 1);
                }
            }
            // Mostly until the bucket is about full, where windows are tight.
            _ => {
                self.finish().await;
                self.scene.pass(rng.random_range(0..=self.time_of(capacity + 1))).await;
            }
        }
    }

    fn admit(&mut self, from: u64, to: u64, count: u64) {
        self.oracle.admitted(from, to, count);
        self.admitted += count;
    }

    /// Takes `count` tokens by a bare command, and leaves to do what follows; whether a bucket without a key may be
    /// taken `first` as well.
    async fn take_at_rest(&mut self, count: u64, first: bool) {
        let (pace, state) = (self.pace(), self.scene.keys.counter("a"));
        let capacity = self.scene.limit.terms.capacity.get();
        let from = self.scene.redis.time().await;
        let first_at = if first { from + MARGIN } else { 0 };
        let mut out = Vec::new();
        let replies = scripts::encode_take_at_rest(&mut out, &state, 1, pace, count, first_at);
        let mut answers = self.scene.redis.ask_bare(&out, replies).await;
        let to = self.scene.redis.time().await;
        let created = replies > 1 && matches!(answers[0], Ok(Value::Okay));
        let Ok(left) = answers.pop().unwrap() else { return self.left.push(Left::Settle(count)) };
        let left = from_redis_value(left).unwrap();
        let AtRestNumber::Full(full_at) = scripts::read_number_at_rest(left, 1) else {
            return self.left.push(Left::Settle(count));
        };
        // By the time before it was sent, it may be denied a token that has come since.
        if full_at > from + capacity * pace.p / pace.n && !created {
            self.taken[1] += 1;
            return self.left.push(Left::Give(count, full_at));
        }
        self.taken[0] += 1;
        self.admit(self.scene.instant(from), self.scene.instant(to), count);
        if created {
            self.late += to.saturating_sub(first_at);
        } else {
            self.left.push(Left::Live(self.scene.instant(full_at), count));
            self.follow_close().await;
        }
    }

    /// Lets keys live longer that are about to expire.
    async fn follow_close(&mut self) {
        let (soon, pace) = (self.scene.now().await + CLOSE, self.pace());
        let starts = |full, count| full - time_at_rest(pace, count);
        let close = |left: &mut Left| matches!(*left, Left::Live(full, count) if starts(full, count) < soon);
        for left in self.left.extract_if(.., close).collect::<Vec<_>>() {
            self.follow(left).await;
        }
    }

    /// Sends the correction after a take. Returns the wait of a denied take.
    async fn follow(&mut self, left: Left) -> Option<u64> {
        let (pace, state) = (self.pace(), self.scene.keys.counter("a"));
        let (give, full_at, count) = match left {
            Left::Give(count, _) => (count, 0, count),
            Left::Live(full_at, count) => (0, full_at.checked_add_signed(-self.scene.passed).unwrap(), count),
            Left::Settle(count) => return self.settle(count).await,
        };
        let mut out = Vec::new();
        let replies = scripts::encode_correction(&mut out, &state, pace, give, 0, full_at);
        let value = self.scene.redis.ask_bare(&out, replies).await.pop().unwrap();
        if let Left::Give(_, known) = left {
            // A bucket made anew, since the machine was so slow that the one before was full. A worker would tell the next
            // settle that the tokens are in doubt.
            if let Ok(Value::Int(number)) = value
                && let AtRestNumber::Full(full_at) = scripts::read_number_at_rest(number, 1)
                && !scripts::are_whole_tokens(pace, full_at.abs_diff(known))
            {
                self.late += self.time_of(count);
            }
            return self.settle(count).await;
        }
        self.late += if value.unwrap() == Value::Nil { self.time_of(count) } else { 0 };
        None
    }

    /// Does all that is left to do, in order.
    async fn finish(&mut self) -> Option<u64> {
        let mut wait = None;
        for left in std::mem::take(&mut self.left) {
            wait = self.follow(left).await.or(wait);
        }
        wait
    }

    /// Takes by the script: how long to wait if it denies.
    async fn settle(&mut self, count: u64) -> Option<u64> {
        let (conn, keys) = (&mut self.scene.redis.connection, &self.scene.keys);
        let take = Operation::Take(count);
        let settled = scripts::settle(conn, Algorithm::TokenBucket, keys, "a", take, self.may_count, None)
            .await
            .unwrap();
        let now = self.scene.instant(settled.now);
        if settled.verdict == Verdict::Allowed {
            self.admit(now, now, count);
            return None;
        }
        if count == 1 {
            self.oracle.denied(now);
        }
        Some(settled.wait)
    }
}
