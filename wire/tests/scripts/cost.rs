//! What a credit costs, and what it would cost in other ways.
//!
//! ```text
//! cargo test --release -p topup-wire --test scripts -- --ignored --nocapture microseconds_of_a_credit
//! ```

use redis::Script;
use topup_wire::{bucket::Operation, keyspace::ShardKeys, reply::Refilled, scripts};

use crate::{contracts::sources, draw::limit, server::Redis, travel::travel};

const BUCKETS: usize = 20_000;
const ROUNDS: usize = 15;
const TICK: i64 = 100_000;

/// Ways to do it, as changes to the script.
const WAYS: [(&str, &[(&str, &str)]); 6] = [
    ("as it is", &[]),
    ("slices of 40 or 80", &[("BUDGET = 80, 250", "BUDGET = 40, 150")]),
    ("scores as text", &[("= at, member", "= format(WHOLE, at), member")]),
    ("a text for each that is owed", &[("if come ~= more then", "if true then")]),
    (
        "MGET and MSET",
        &[
            (
                "  local moved, k, kept",
                "  local keys = {}\n  for i = 1, #rows, 2 do keys[#keys + 1] = prefix .. rows[i] end\n  \
                 local counts = redis.call('MGET', unpack(keys))\n  local moved, k, kept",
            ),
            ("local key = prefix .. member", "local key = keys[(i + 1) / 2]"),
            ("if come ~= more then more, text = come, format(WHOLE, come) end", ""),
            ("tokens = redis.pcall('INCRBY', key, text)", "before = tonumber(counts[(i + 1) / 2]) or 0"),
            ("before = type(tokens) == 'number' and tokens - come", "tokens, written = before + come, false"),
        ],
    ),
    ("by long division, and one by one", &[("local origin = plain and", "local origin = false and")]),
];

/// µs spent in scripts so far.
async fn spent(redis: &mut Redis) -> f64 {
    let info: String = redis.ask(&["INFO", "commandstats"]).await;
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    line.split("usec=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
#[ignore = "measures, for half a minute"]
async fn microseconds_of_a_credit() {
    let mut redis = Redis::start().await;
    let mut pure = limit(1_000_000, "1000/s");
    pure.catch_up = false;
    let keys = ShardKeys::new(&pure.name, 0);
    scripts::publish(&mut redis.connection, &keys, &pure, None).await.unwrap();
    for i in 0..BUCKETS {
        let take = Operation::Take(900_000);
        scripts::settle(&mut redis.connection, &keys, &format!("user-{i}"), take).await.unwrap();
    }
    let source = sources::scripts().into_iter().find(|source| source.name == "refill").unwrap();
    let ways = WAYS.map(|(name, changes)| {
        let text = changes.iter().fold(source.whole(), |text, (from, to)| {
            assert!(text.contains(from), "{name}: no {from:?}");
            text.replace(from, to)
        });
        (name, Script::new(&text))
    });
    let mut best = [f64::INFINITY; WAYS.len()];
    for _ in 0..ROUNDS {
        for ((_, script), best) in ways.iter().zip(&mut best) {
            travel(&mut redis, &keys, 2 * TICK).await;
            let (before, mut credited) = (spent(&mut redis).await, 0);
            while credited < BUCKETS as u64 {
                let mut call = script.key(&keys.record);
                call.key(&keys.due).key(&keys.counters).arg(500).arg(0);
                credited += redis.call::<Refilled>(&call).await.credited;
            }
            *best = best.min((spent(&mut redis).await - before) / credited as f64);
        }
    }
    for ((name, _), best) in ways.iter().zip(best) {
        eprintln!("{best:.2} µs a credit, {name}");
    }
}
