//! Takes from several buckets of several algorithms in one step, compared with takes from each in turn.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use redis::{Cmd, aio::ConnectionLike};
use topup_twin::{AtRest, FixedWindow, LazyBucket, LeakyBucket, Record, SlidingCounter, SlidingLog, State};
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, Capacity, Limit, Rule, Supply, Terms, Windows},
    namespace::Namespace,
    reply::{Settled, Verdict},
    scripts::{self, BucketTake},
};

use crate::{
    generators::{limit, seeds},
    server::Redis,
};

const WORLDS: u64 = 24;
const STEPS: usize = 80;
/// Rates at which tokens come while the test runs; all but the last as the light path reckons with.
const RATES: [&str; 5] = ["997/s", "100/s", "3/ms", "1000/ms", "1001/ms"];

/// The state of one bucket, by any algorithm.
#[derive(Clone)]
enum Twin {
    Counted(topup_twin::Bucket),
    AtRest(Option<AtRest>),
    LazyBucket(Option<LazyBucket>),
    LeakyBucket(Option<LeakyBucket>),
    FixedWindow(Option<FixedWindow>),
    SlidingCounter(Option<SlidingCounter>),
    SlidingLog(Option<SlidingLog>),
}

/// One bucket.
struct Bucket {
    limit: Limit,
    keys: ShardKeys,
    record: Record,
    twin: Twin,
}

#[tokio::test]
async fn a_take_of_several_does_what_takes_of_each_would() {
    let (mut redis, mut denied) = (Redis::start().await, 0);
    for (_seed, mut rng) in seeds(WORLDS) {
        redis.ask::<()>(&["FLUSHALL"]).await;
        // A fixed window ends by the clock of Redis, and the twin by the instant of the reply.
        let algorithms = Algorithm::ALL.into_iter().filter(|one| *one != Algorithm::FixedWindow).collect();
        let mut buckets = publish(&mut redis.connection, algorithms, &mut rng).await;
        for _ in 0..STEPS {
            denied += u32::from(!step(&mut redis.connection, &mut buckets, &mut rng).await);
            // Time passes, and tokens come.
            for _ in 0..rng.random_range(0..20) {
                redis.time().await;
            }
        }
    }
    assert!(denied > 100, "{denied} denied");
}

#[cfg(feature = "in-memory")]
#[tokio::test]
async fn a_take_of_several_does_so_in_memory() {
    use topup_wire::in_memory::InMemoryRedis;

    let mut denied = 0;
    for (_seed, mut rng) in seeds(WORLDS) {
        let redis = InMemoryRedis::new(1_767_225_600_000_000 + rng.random_range(0..1_000_000));
        let mut direct = redis.direct(Namespace::default());
        let mut buckets = publish(&mut direct, Algorithm::ALL.into(), &mut rng).await;
        for _ in 0..STEPS {
            denied += u32::from(!step(&mut direct, &mut buckets, &mut rng).await);
            redis.set_now(redis.now() + rng.random_range(0..2_000));
        }
    }
    assert!(denied > 100, "{denied} denied");
}

/// Some buckets of these algorithms.
async fn publish(
    connection: &mut impl ConnectionLike,
    algorithms: Vec<Algorithm>,
    rng: &mut StdRng,
) -> Vec<Bucket> {
    let mut buckets = Vec::new();
    for i in 0..rng.random_range(1..=4) {
        buckets.push(Bucket::publish(connection, i, *algorithms.choose(rng).unwrap(), rng).await);
    }
    buckets
}

/// Takes from all of them: whether all that are enforced allowed it.
async fn step(connection: &mut impl ConnectionLike, buckets: &mut [Bucket], rng: &mut StdRng) -> bool {
    let takes: Vec<BucketTake<'_>> = buckets
        .iter()
        .map(|bucket| BucketTake {
            algorithm: bucket.limit.algorithm,
            keys: &bucket.keys,
            member: "alice",
            count: if rng.random_bool(0.02) { 100 } else { rng.random_range(0..4) },
            enforced: rng.random_bool(0.8),
        })
        .collect();
    let replies = scripts::take_all(connection, &takes).await.unwrap();
    let asked: Vec<(u64, bool)> = takes.iter().map(|part| (part.count, part.enforced)).collect();
    let now = replies[0].now;
    let allows = |bucket: &Bucket, count| {
        let peek = bucket.twin.clone().settle(&bucket.record, Operation::Peek(count), now);
        peek.verdict == Verdict::Allowed
    };
    let allowed =
        buckets.iter().zip(&asked).all(|(bucket, (count, enforced))| !enforced || allows(bucket, *count));
    for ((bucket, (count, _)), reply) in buckets.iter_mut().zip(asked).zip(replies) {
        let operation = if allowed { Operation::Take(count) } else { Operation::Peek(count) };
        let expected = bucket.twin.settle(&bucket.record, operation, now);
        assert_eq!(reply, expected, "{operation:?} under {:?}", bucket.limit);
    }
    allowed
}

// === impl Bucket ===

impl Bucket {
    async fn publish(
        connection: &mut impl ConnectionLike,
        i: usize,
        algorithm: Algorithm,
        rng: &mut StdRng,
    ) -> Self {
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
        let keys = ShardKeys::new(Namespace::default(), &limit.name, 0);
        scripts::publish(connection, &keys, &limit, None, None).await.unwrap();
        let fields = Cmd::hmget(&keys.record, &["since", "terms"]);
        let (since, terms) = fields.query_async(connection).await.unwrap();
        let record = Record { terms_id: terms, ..Record::new(&limit, since) };
        Self { limit, keys, record, twin: Twin::of(algorithm) }
    }
}

// === impl Twin ===

impl Twin {
    fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket => Self::Counted(topup_twin::Bucket::Absent),
            Algorithm::LazyTokenBucket => Self::LazyBucket(None),
            Algorithm::Gcra => Self::AtRest(None),
            Algorithm::LeakyBucket => Self::LeakyBucket(None),
            Algorithm::FixedWindow => Self::FixedWindow(None),
            Algorithm::SlidingWindow => Self::SlidingLog(None),
            Algorithm::SlidingCounter => Self::SlidingCounter(None),
            Algorithm::Concurrency | Algorithm::FairShares => unreachable!("not taken so"),
        }
    }

    fn settle(&mut self, record: &Record, operation: Operation, now: u64) -> Settled {
        match self {
            Self::Counted(held) => topup_twin::settle(record, held, operation, false, None, now),
            Self::AtRest(state) => State::settle(record, state, operation, now),
            Self::LazyBucket(state) => State::settle(record, state, operation, now),
            Self::LeakyBucket(state) => State::settle(record, state, operation, now),
            Self::FixedWindow(state) => State::settle(record, state, operation, now),
            Self::SlidingCounter(state) => State::settle(record, state, operation, now),
            Self::SlidingLog(state) => State::settle(record, state, operation, now),
        }
    }
}
