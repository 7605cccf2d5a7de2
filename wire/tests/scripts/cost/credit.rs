//! Cost of a credit, as it is and in other ways.
//!
//! ```text
//! cargo test --release -p topup-wire --test scripts -- --ignored --nocapture microseconds_of_a_credit
//! ```

use redis::Script;
use topup_wire::{
    bucket::Operation, keyspace::ShardKeys, limit::Algorithm, namespace::Namespace, reply::Refilled, scripts,
};

use crate::{
    contracts::sources,
    generators::limit,
    server::{Redis, publish},
    travel::travel,
};

const BUCKETS: usize = 20_000;
const ROUNDS: usize = 15;
const TICK: i64 = 100_000;

/// Parts of the script's text, and others in their place.
type Changes = [(&'static str, &'static str)];

/// Ways to do it, as buckets in a slice and changes to the script.
const WAYS: [(&str, u32, &Changes); 10] = [
    ("as it is, in slices of 32", 32, &[]),
    ("slices of 8", 8, &[]),
    ("slices of 16", 16, &[]),
    ("slices of 80", 80, &[]),
    ("terms read field by field", 32, &[("read_packed_terms(record) or ", "")]),
    ("scores as text", 32, &[("= at, member", "= format(WHOLE, at), member")]),
    ("a text for each that is owed", 32, &[("if come ~= more then", "if true then")]),
    (
        "scores as doubles of RESP3",
        32,
        &[
            (
                "local rows = redis.call('ZRANGEBYSCORE'",
                "redis.setresp(3) local pairs = redis.call('ZRANGEBYSCORE'",
            ),
            (
                "  if #rows < 2 * count",
                "  local rows = {} for i, pair in ipairs(pairs) do rows[2 * i - 1], rows[2 * i] = pair[1], pair[2].double \
                 end redis.setresp(2)\n  if #rows < 2 * count",
            ),
        ],
    ),
    (
        "MGET and MSET",
        32,
        &[
            (
                "  local moved, k, kept",
                "  local keys = {}\n  for i = 1, #rows, 2 do keys[(i + 1) / 2] = prefix .. rows[i] end\n  \
                 local counts = redis.call('MGET', unpack(keys))\n  local moved, k, kept",
            ),
            ("local key = prefix .. member", "local key = keys[(i + 1) / 2]"),
            ("if come ~= more then more, text = come, format(WHOLE, come) end", ""),
            ("tokens = redis.pcall('INCRBY', key, text)", "before = tonumber(counts[(i + 1) / 2]) or 0"),
            ("before = type(tokens) == 'number' and tokens - come", "tokens, written = before + come, false"),
        ],
    ),
    ("by long division, and one by one", 32, &[("local origin = plain and", "local origin = false and")]),
];

/// µs spent in scripts so far.
async fn spent(redis: &mut Redis) -> f64 {
    let info: String = redis.ask(&["INFO", "commandstats"]).await;
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    line.split("usec=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
#[ignore = "measures, for a minute"]
async fn microseconds_of_a_credit() {
    let mut redis = Redis::start().await;
    let mut pure = limit(1_000_000, "1000/s");
    pure.catch_up = false;
    let keys = ShardKeys::new(Namespace::default(), &pure.name, 0);
    publish(&mut redis.connection, &keys, &pure, None).await.unwrap();
    for i in 0..BUCKETS {
        let take = Operation::Take(900_000);
        scripts::settle(
            &mut redis.connection,
            Algorithm::TokenBucket,
            &keys,
            &format!("user-{i}"),
            take,
            true,
            None,
        )
        .await
        .unwrap();
    }
    let source = sources::scripts().into_iter().find(|source| source.name == "refill").unwrap();
    let ways = WAYS.map(|(name, most, changes)| {
        let text = changes.iter().fold(source.whole(), |text, (from, to)| {
            assert!(text.contains(from), "{name}: no {from:?}");
            text.replace(from, to)
        });
        (name, most, Script::new(&text))
    });
    let mut best = [f64::INFINITY; WAYS.len()];
    for _ in 0..ROUNDS {
        for ((_, most, script), best) in ways.iter().zip(&mut best) {
            travel(&mut redis, &keys, 2 * TICK).await;
            let (before, mut credited) = (spent(&mut redis).await, 0);
            while credited < BUCKETS as u64 {
                let mut call = script.key(&keys.record);
                call.key(&keys.due).key(&keys.counters).arg(*most).arg(0);
                credited += redis.call::<Refilled>(&call).await.credited;
            }
            *best = best.min((spent(&mut redis).await - before) / credited as f64);
        }
    }
    for ((name, ..), best) in ways.iter().zip(best) {
        eprintln!("{best:.2} µs a credit, {name}");
    }
}
