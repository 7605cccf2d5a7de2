//! Takes from several buckets at once, of several algorithms, as if each were asked in turn and all were one step.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use topup_wire::{
    bucket::{self, AtRest, Lazy, Level, Log, Operation, Record, State, Window, Windowed},
    keyspace::ShardKeys,
    limit::{Algorithm, Capacity, Limit, Rule, Supply, Terms, Windows},
    reply::{Settled, Verdict},
    scripts::{self, Part},
};

use crate::{
    draw::{limit, seeds},
    server::Redis,
};

const WORLDS: u64 = 60;
const STEPS: usize = 80;
/// Rates at which tokens come while the test runs; all but the last as the light path reckons with.
const RATES: [&str; 5] = ["997/s", "100/s", "3/ms", "1000/ms", "1001/ms"];

/// The state of one bucket, by any algorithm.
#[derive(Clone)]
enum Twin {
    Counted(bucket::Bucket),
    AtRest(Option<AtRest>),
    Lazy(Option<Lazy>),
    Level(Option<Level>),
    Window(Option<Window>),
    Windowed(Option<Windowed>),
    Log(Option<Log>),
}

/// One bucket.
struct Bucket {
    limit: Limit,
    keys: ShardKeys,
    record: Record,
    twin: Twin,
}

#[tokio::test]
async fn joint_takes_do_what_takes_from_each_would() {
    let mut redis = Redis::start().await;
    let mut denied = 0;
    for (_seed, mut rng) in seeds(WORLDS) {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let mut buckets = Vec::new();
        for i in 0..rng.random_range(1..=4) {
            buckets.push(Bucket::publish(&mut redis, i, &mut rng).await);
        }
        for _ in 0..STEPS {
            denied += u32::from(!step(&mut redis, &mut buckets, &mut rng).await);
            // Tokens come between steps: nothing is waited for.
            tokio::time::sleep(Duration::from_micros(rng.random_range(0..2_000))).await;
        }
    }
    assert!(denied > 100, "{denied} denied");
}

/// Takes from all of them: whether all that are enforced allowed it.
async fn step(redis: &mut Redis, buckets: &mut [Bucket], rng: &mut StdRng) -> bool {
    let parts: Vec<Part<'_>> = buckets
        .iter()
        .map(|bucket| Part {
            algorithm: bucket.limit.algorithm,
            keys: &bucket.keys,
            member: "alice",
            count: if rng.random_bool(0.02) { 100 } else { rng.random_range(0..4) },
            enforced: rng.random_bool(0.8),
        })
        .collect();
    let replies = scripts::joint(&mut redis.connection, &parts).await.unwrap();
    let asked: Vec<(u64, bool)> = parts.iter().map(|part| (part.count, part.enforced)).collect();
    let now = replies[0].now;
    let allows = |bucket: &Bucket, count| {
        let peek = bucket.twin.clone().operate(&bucket.record, Operation::Peek(count), now);
        peek.verdict == Verdict::Allowed
    };
    let allowed =
        buckets.iter().zip(&asked).all(|(bucket, (count, enforced))| !enforced || allows(bucket, *count));
    for ((bucket, (count, _)), reply) in buckets.iter_mut().zip(asked).zip(replies) {
        let operation = if allowed { Operation::Take(count) } else { Operation::Peek(count) };
        let expected = bucket.twin.operate(&bucket.record, operation, now);
        assert_eq!(reply, expected, "{operation:?} under {:?}", bucket.limit);
    }
    allowed
}

// === impl Bucket ===

impl Bucket {
    async fn publish(redis: &mut Redis, i: usize, rng: &mut StdRng) -> Self {
        let algorithm = *Algorithm::ALL.choose(rng).unwrap();
        let capacity = Capacity::new(rng.random_range(3..20)).unwrap();
        let supply = if algorithm.has_windows() {
            let rule = Rule::new(capacity.get(), Duration::from_micros(rng.random_range(1_000..40_000)));
            Supply::Windows(Windows::new(&[rule.unwrap()], rng.random_bool(0.5)).unwrap())
        } else {
            let rates = if algorithm == Algorithm::Gcra { &RATES[..2] } else { &RATES };
            Supply::Rate(rates.choose(rng).unwrap().parse().unwrap())
        };
        let name = format!("level-{i}").parse().unwrap();
        let limit = Limit { name, algorithm, terms: Terms { capacity, supply }, ..limit(1, "1/s") };
        let keys = ShardKeys::new(&limit.name, 0);
        scripts::publish(&mut redis.connection, &keys, &limit, None, None).await.unwrap();
        let (since, terms) = redis.ask(&["HMGET", &keys.record, "since", "terms"]).await;
        let record = Record { terms, ..Record::new(&limit, since) };
        Self { limit, keys, record, twin: Twin::of(algorithm) }
    }
}

// === impl Twin ===

impl Twin {
    fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket => Self::Counted(bucket::Bucket::Absent),
            Algorithm::LazyTokenBucket => Self::Lazy(None),
            Algorithm::Gcra => Self::AtRest(None),
            Algorithm::LeakyBucket => Self::Level(None),
            Algorithm::FixedWindow => Self::Window(None),
            Algorithm::SlidingWindow => Self::Log(None),
            Algorithm::SlidingCounter => Self::Windowed(None),
        }
    }

    fn operate(&mut self, record: &Record, operation: Operation, now: u64) -> Settled {
        match self {
            Self::Counted(held) => bucket::settle(record, held, operation, false, 0, now),
            Self::AtRest(state) => State::operate(record, state, operation, now),
            Self::Lazy(state) => State::operate(record, state, operation, now),
            Self::Level(state) => State::operate(record, state, operation, now),
            Self::Window(state) => State::operate(record, state, operation, now),
            Self::Windowed(state) => State::operate(record, state, operation, now),
            Self::Log(state) => State::operate(record, state, operation, now),
        }
    }
}
