//! Cost of a settle, compared with a plain GCRA script.
//!
//! ```text
//! cargo test --release -p topup-wire --test scripts -- --ignored --nocapture microseconds_of_a_settle
//! ```

use redis::{Cmd, Pipeline, Script, Value};
use topup_wire::{bucket::Operation, keyspace::ShardKeys, limit::Algorithm, namespace::Namespace, scripts};

use crate::{
    contracts::sources,
    generators::limit,
    server::{Redis, publish},
};

const BUCKETS: usize = 5_000;
const ROUNDS: usize = 300;
/// In one pipeline; then it is the next way's turn.
const CALLS: usize = 500;

/// The operation on each bucket in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A plain GCRA script.
    Plain,
    /// A settle of a bucket at rest.
    AtRest,
    /// The same of one that has just been taken from for the first time.
    FirstTaken,
    /// The same of a counter.
    Counting,
    /// The same of an empty one.
    Denied,
    /// A plain GCRA script that denies.
    PlainDenied,
    /// GCRA.
    Gcra,
    /// A lazy token bucket.
    LazyBucket,
    /// The bare command.
    Decrement,
    /// A first take.
    FirstTake,
}

/// µs of the processor that Redis has used.
async fn used(redis: &mut Redis) -> f64 {
    let info: String = redis.ask(&["INFO", "cpu"]).await;
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name)).unwrap();
        line.split(':').nth(1).unwrap().trim().parse::<f64>().unwrap()
    };
    (field("used_cpu_user:") + field("used_cpu_sys:")) * 1e6
}

#[tokio::test]
#[ignore = "measures, for a minute"]
async fn microseconds_of_a_settle() {
    let mut redis = Redis::start().await;
    let plain = Script::new(include_str!("gcra.lua"));
    redis.ask::<String>(&["SCRIPT", "LOAD", include_str!("gcra.lua")]).await;
    let settle = sources::scripts().into_iter().find(|source| source.name == "settle").unwrap().whole();
    redis.ask::<String>(&["SCRIPT", "LOAD", &settle]).await;
    let settle = Script::new(&settle);
    let gcra = sources::of(Algorithm::Gcra, true);
    redis.ask::<String>(&["SCRIPT", "LOAD", &gcra]).await;
    let gcra = Script::new(&gcra);
    let ways = [
        Way::Plain,
        Way::AtRest,
        Way::FirstTaken,
        Way::Counting,
        Way::PlainDenied,
        Way::Denied,
        Way::Gcra,
        Way::LazyBucket,
        Way::Decrement,
        Way::FirstTake,
    ];
    let mut limits = ways.map(|way| {
        let mut limit = limit(if way == Way::Denied { 1 } else { 1_000_000 }, "1/min");
        limit.name = format!("{way:?}").to_lowercase().parse().unwrap();
        limit.algorithm = match way {
            Way::Gcra => Algorithm::Gcra,
            Way::LazyBucket => Algorithm::LazyTokenBucket,
            _ => Algorithm::TokenBucket,
        };
        limit
    });
    limits.iter_mut().for_each(|limit| limit.keyed = true);
    let mut lazy = None;
    for limit in &limits {
        let keys = ShardKeys::new(Namespace::default(), &limit.name, 0);
        publish(&mut redis.connection, &keys, limit, None).await.unwrap();
        if limit.algorithm == Algorithm::LazyTokenBucket {
            scripts::settle(
                &mut redis.connection,
                limit.algorithm,
                &keys,
                "x",
                Operation::Peek(1),
                false,
                None,
            )
            .await
            .unwrap();
            let mut out = Vec::new();
            scripts::encode_settle(
                &mut out,
                limit.algorithm,
                &keys,
                "x",
                Operation::Peek(1),
                false,
                None,
                false,
            );
            let text = String::from_utf8(out).unwrap();
            lazy = Some(text.split("\r\n").find(|word| word.len() == 40).unwrap().to_owned());
        }
    }
    let lazy = lazy.unwrap();
    let mut samples = ways.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for ((way, limit), samples) in ways.iter().zip(&limits).zip(&mut samples) {
            let (way, keys) = (*way, ShardKeys::new(Namespace::default(), &limit.name, 0));
            let state = |i: usize| keys.state(limit.algorithm, &format!("user-{i}"));
            let mut calls: Vec<Cmd> = Vec::new();
            for call in 0..CALLS {
                let i = (round * CALLS + call) % BUCKETS;
                let mut cmd = Cmd::new();
                match way {
                    Way::Plain | Way::PlainDenied => {
                        let burst = if way == Way::Plain { 1_000_000 } else { 1 };
                        cmd.arg("EVALSHA").arg(plain.get_hash()).arg(1).arg(format!("gcra:{way:?}:user-{i}"));
                        cmd.arg(60_000_000).arg(burst).arg(1);
                    }
                    Way::Decrement => drop(cmd.arg("DECR").arg(format!("counter:user-{i}"))),
                    Way::FirstTake => {
                        cmd.arg("SET").arg(format!("{}{round}", state(i))).arg("f00011");
                        cmd.arg("PX").arg(102).arg("NX");
                    }
                    Way::LazyBucket => {
                        cmd.arg("EVALSHA").arg(&lazy).arg(2).arg(&keys.record).arg(state(i));
                        cmd.arg("take").arg(1);
                    }
                    Way::Gcra => {
                        cmd.arg("EVALSHA").arg(gcra.get_hash()).arg(2).arg(state(i)).arg(&keys.record);
                        cmd.arg("take").arg(1).arg(1);
                    }
                    _ => {
                        cmd.arg("EVALSHA").arg(settle.get_hash()).arg(4).arg(state(i)).arg(&keys.record);
                        cmd.arg(&keys.due).arg(&keys.previous).arg("take").arg(1);
                        cmd.arg(u8::from(way == Way::Counting));
                    }
                }
                calls.push(cmd);
            }
            if way == Way::FirstTaken {
                let record = keys.record.clone();
                let terms = redis.ask(&["HGET", &record, "terms"]).await;
                let pace = topup_wire::bucket::Pace { n: 1, p: 60_000_000 };
                for i in (0..CALLS).map(|call| (round * CALLS + call) % BUCKETS) {
                    redis.ask::<()>(&["DEL", &state(i)]).await;
                    scripts::first_take(&mut redis.connection, &state(i), terms, pace, 60).await.unwrap();
                }
            }
            let mut pipe = Pipeline::with_capacity(CALLS);
            for call in calls {
                pipe.add_command(call);
            }
            let before = used(&mut redis).await;
            pipe.query_async::<Vec<Value>>(&mut redis.connection).await.unwrap();
            samples.push((used(&mut redis).await - before) / CALLS as f64);
        }
    }
    let quartile = |samples: &mut Vec<f64>| {
        samples.sort_unstable_by(f64::total_cmp);
        samples[samples.len() / 4]
    };
    let costs = samples.map(|mut samples| quartile(&mut samples));
    for (way, cost) in ways.iter().zip(costs) {
        eprintln!("{cost:6.2} µs, {:.2} of plain GCRA: {way:?}", cost / costs[0]);
    }
}
