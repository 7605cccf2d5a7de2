//! To the µs: the scripts as they are, but for a clock that the test sets.

use rand::RngExt;
use redis::Script;
use topup_twin::{AtRest, LazyBucket, LeakyBucket, SlidingCounter, SlidingLog};
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, Supply},
    reply::{Settled, Verdict},
};

use super::{record::Twin, script_only::Kept};
use crate::{
    contracts::sources,
    generators::{any_size, limit, seeds},
    server::Redis,
};

const WORLDS: u64 = 20;
const STEPS: usize = 60;
/// A key whose state is the clock: the two numbers that TIME answers.
const CLOCK: &str = "clock";

/// One bucket, twice.
struct World<S> {
    twin: Twin,
    script: Script,
    bucket: Option<S>,
    now: u64,
    /// Instants and tokens of takes.
    taken: Vec<(u64, u64)>,
}

#[tokio::test]
async fn a_denial_ends_when_it_is_told_to_and_not_a_microsecond_before() {
    let mut redis = Redis::start().await;
    redis = keep_promises::<LazyBucket>(redis).await;
    redis = keep_promises::<AtRest>(redis).await;
    redis = keep_promises::<LeakyBucket>(redis).await;
    redis = keep_promises::<SlidingCounter>(redis).await;
    keep_promises::<SlidingLog>(redis).await;
}

/// With and without the light path.
async fn keep_promises<S: Kept>(redis: Redis) -> Redis {
    let redis = keep_promises_by::<S>(redis, true).await;
    keep_promises_by::<S>(redis, false).await
}

async fn keep_promises_by<S: Kept>(mut redis: Redis, packed: bool) -> Redis {
    let whole = sources::of(S::ALGORITHM, packed);
    let set = whole.replace("call('TIME')", &format!("call('LRANGE', '{CLOCK}', 0, 1)"));
    assert_ne!(set, whole);
    let (mut denied, mut kept) = (0, 0);
    for (_seed, mut rng) in seeds(WORLDS) {
        let mut first = limit(1, "1/s");
        (first.terms, first.algorithm) = (S::terms(&mut rng), S::ALGORITHM);
        let twin = Twin::new(&mut redis, first).await;
        let now = redis.time().await + 1_000_000;
        let mut world = World::<S> { twin, script: Script::new(&set), bucket: None, now, taken: Vec::new() };
        for _ in 0..STEPS {
            let count = any_size(&mut rng, world.twin.record.capacity).max(1);
            let operation = match rng.random_range(0..6) {
                0 => Operation::Share(count),
                1 => Operation::Peek(count),
                2 => Operation::Take(count),
                _ => Operation::Take(1),
            };
            let settled = world.settle(&mut redis, operation).await;
            if settled.wait > 0 && settled.now + settled.wait < 1 << 52 {
                denied += 1;
                // For the take that was denied, or the next of a single token.
                let wanted = match operation {
                    Operation::Take(count) | Operation::Peek(count) if settled.verdict == Verdict::Denied => {
                        count
                    }
                    _ => 1,
                };
                kept += u32::from(world.keeps(wanted, settled.wait));
                world.now += settled.wait - rng.random_range(0..2);
            } else {
                world.now +=
                    S::some_time(&world.twin.record, &mut rng).unsigned_abs() >> rng.random_range(0..40);
            }
        }
        world.judge();
    }
    assert!(denied > WORLDS as u32 * 4, "{}: {denied} denials", S::ALGORITHM);
    assert_eq!(denied, kept, "{}: promises made and kept", S::ALGORITHM);
    redis
}

// === impl World ===

impl<S: Kept> World<S> {
    async fn settle(&mut self, redis: &mut Redis, operation: Operation) -> Settled {
        let clock = [(self.now / 1_000_000).to_string(), (self.now % 1_000_000).to_string()];
        redis.ask::<()>(&["DEL", CLOCK]).await;
        redis.ask::<()>(&["RPUSH", CLOCK, &clock[0], &clock[1]]).await;
        let ShardKeys { record, .. } = &self.twin.keys;
        let (word, count) = match operation {
            Operation::Take(count) => ("take", count),
            Operation::Share(count) => ("share", count),
            Operation::Peek(count) => ("peek", count),
            other => panic!("{other:?} is not asked here"),
        };
        let state = self.twin.keys.state(S::ALGORITHM, "");
        let call = match S::ALGORITHM {
            Algorithm::Gcra => {
                let mut call = self.script.key(state);
                call.key(record).arg(word).arg(count).arg(0).arg(0).arg("all");
                call
            }
            _ => {
                let mut call = self.script.key(record);
                call.key(state).arg(word).arg(count);
                call
            }
        };
        let settled: Settled = redis.call(&call).await;
        let before = self.bucket.clone();
        let expected = S::settle(&self.twin.record, &mut self.bucket, operation, self.now);
        assert_eq!(settled, expected, "{operation:?} of {before:?} under {:?}", self.twin.record);
        if settled.granted > 0 {
            self.taken.push((self.now, settled.granted));
        }
        settled
    }

    /// Whether a take of `count` would be denied for `wait` µs, and not for one more.
    fn keeps(&self, count: u64, wait: u64) -> bool {
        let verdict =
            |at: u64| S::settle(&self.twin.record, &mut self.bucket.clone(), Operation::Peek(count), at);
        let [early, on_time] = [self.now + wait - 1, self.now + wait].map(|at| verdict(at).verdict);
        (early, on_time) == (Verdict::Denied, Verdict::Allowed)
    }

    /// In no window was more taken than a rule says, whatever the twin thinks of it.
    fn judge(&self) {
        let Supply::Windows(windows) = self.twin.limit.terms.supply else { return };
        for rule in windows.rules() {
            let (most, length) = (rule.tokens().get(), rule.micros());
            for (i, (from, _)) in self.taken.iter().enumerate() {
                let within = self.taken[i..].iter().filter(|(at, _)| match S::ALGORITHM {
                    Algorithm::SlidingWindow => *at < from + length,
                    // Windows at multiples of their length.
                    _ => at / length == from / length,
                });
                let sum: u64 = within.map(|(_, count)| count).sum();
                assert!(sum <= most, "{}: {sum} from {from} under {rule:?}", S::ALGORITHM);
            }
        }
    }
}
