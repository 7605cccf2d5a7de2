//! Cost of a take, compared with the script that articles write for the same algorithm.
//!
//! ```text
//! cargo test --release -p topup-wire --test scripts -- --ignored --nocapture microseconds_of_a
//! ```

use std::time::Duration;

use redis::{Pipeline, Script};
use topup_wire::{
    keyspace::ShardKeys,
    limit::{Algorithm, Capacity, Limit, Rule, Supply, Terms, Windows},
    namespace::Namespace,
    scripts,
};

use crate::{contracts::sources, generators::limit, server::Redis};

const BUCKETS: usize = 4_000;
const PIPELINED: usize = 100;
const ROUNDS: usize = 12;
const CAPACITY: u64 = 1_000;
const RATE: u64 = 7;
const WINDOW_MS: u64 = 60_000;

/// One way to take, as the words of a call for each bucket.
struct Way {
    name: &'static str,
    script: Script,
    calls: Vec<(Vec<String>, Vec<String>)>,
}

/// An algorithm, and ways to write it plainly.
type Compared = (Algorithm, &'static [(&'static str, &'static str)]);

const COMPARED: [Compared; 5] = [
    (Algorithm::LazyTokenBucket, &[("plain", include_str!("lazy_token_bucket.lua"))]),
    (Algorithm::LeakyBucket, &[("plain", include_str!("leaky_bucket.lua"))]),
    (
        Algorithm::FixedWindow,
        &[
            ("plain", include_str!("fixed_window.lua")),
            ("plain, with the wait", include_str!("fixed_window_with_wait.lua")),
        ],
    ),
    (Algorithm::SlidingWindow, &[("plain", include_str!("sliding_window.lua"))]),
    (Algorithm::SlidingCounter, &[("plain", include_str!("sliding_counter.lua"))]),
];

/// Buckets of a take of several.
const MIXES: [[Algorithm; 3]; 3] = [
    [Algorithm::LazyTokenBucket; 3],
    [Algorithm::LazyTokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow],
    [Algorithm::TokenBucket; 3],
];

#[tokio::test]
#[ignore = "measures, for a minute"]
async fn microseconds_of_a_take() {
    let mut redis = Redis::start().await;
    for (algorithm, plain) in COMPARED {
        let keys = publish(&mut redis, algorithm, 0).await;
        let ours = (0..BUCKETS).map(|i| {
            let keys = vec![keys.record.clone(), keys.state(algorithm, &format!("user-{i}"))];
            // As workers ask.
            let quick = (algorithm != Algorithm::SlidingWindow).then_some("quick");
            (keys, ["take", "1"].into_iter().chain(quick).map(str::to_owned).collect())
        });
        let script = Script::new(&sources::of(algorithm, true));
        let mut ways = vec![Way { name: "ours", script, calls: ours.collect() }];
        for (name, text) in plain {
            let calls = (0..BUCKETS).map(|i| {
                let args = [CAPACITY, terms_of(algorithm), 1].map(|number| number.to_string());
                (vec![format!("{name}:{{user-{i}}}")], args.to_vec())
            });
            ways.push(Way { name, script: Script::new(text), calls: calls.collect() });
        }
        measure(&mut redis, algorithm.as_str(), &ways).await;
    }
}

#[tokio::test]
#[ignore = "measures, for a minute"]
async fn microseconds_of_a_take_of_several() {
    let mut redis = Redis::start().await;
    let whole = sources::scripts().into_iter().find(|source| source.name == "take_all").unwrap().whole();
    for mix in MIXES {
        let mut shards = Vec::new();
        for (level, algorithm) in mix.into_iter().enumerate() {
            shards.push(publish(&mut redis, algorithm, level).await);
        }
        let ours = (0..BUCKETS).map(|i| take_all_call(&mix, &shards, &format!("user-{i}")));
        let plain = (0..BUCKETS).map(|i| {
            let mut args = vec!["1".to_owned()];
            for algorithm in mix {
                let kind = match algorithm {
                    Algorithm::FixedWindow => "fixed",
                    Algorithm::SlidingWindow => "log",
                    _ => "lazy",
                };
                args.extend([kind.to_owned(), CAPACITY.to_string(), terms_of(algorithm).to_string()]);
            }
            ((0..3).map(|level| format!("plain-{level}:{{user-{i}}}")).collect(), args)
        });
        let ways = [
            Way { name: "ours", script: Script::new(&whole), calls: ours.collect() },
            Way { name: "plain", script: Script::new(include_str!("take_all.lua")), calls: plain.collect() },
        ];
        measure(&mut redis, &mix.map(Algorithm::as_str).join(", "), &ways).await;
    }
}

/// Keys and arguments of a take of several buckets of one token each.
fn take_all_call(mix: &[Algorithm], shards: &[ShardKeys], member: &str) -> (Vec<String>, Vec<String>) {
    let (mut keys, mut args) = (Vec::new(), Vec::new());
    for (algorithm, shard) in mix.iter().zip(shards) {
        let state = shard.state(*algorithm, member);
        match algorithm {
            Algorithm::TokenBucket => {
                keys.extend([state, shard.record.clone(), shard.due.clone(), shard.previous.clone()]);
            }
            Algorithm::Gcra => keys.extend([state, shard.record.clone()]),
            _ => keys.extend([shard.record.clone(), state]),
        }
        args.extend([algorithm.as_str(), "1", "1"].map(str::to_owned));
    }
    (keys, args)
}

/// The argument of a plain script besides the capacity.
fn terms_of(algorithm: Algorithm) -> u64 {
    if algorithm.has_windows() { WINDOW_MS } else { RATE }
}

/// Publishes a limit under `algorithm`.
async fn publish(redis: &mut Redis, algorithm: Algorithm, level: usize) -> ShardKeys {
    if level == 0 {
        redis.ask::<()>(&["FLUSHALL"]).await;
    }
    let capacity = Capacity::new(CAPACITY).unwrap();
    let rule = Rule::new(CAPACITY, Duration::from_millis(WINDOW_MS)).unwrap();
    let supply = if algorithm.has_windows() {
        Supply::Windows(Windows::new(&[rule], false).unwrap())
    } else {
        Supply::Rate(format!("{RATE}/s").parse().unwrap())
    };
    let name = format!("level-{level}").parse().unwrap();
    let limit = Limit { name, algorithm, terms: Terms { capacity, supply }, ..limit(1, "1/s") };
    let keys = ShardKeys::new(Namespace::default(), &limit.name, 0);
    scripts::publish(&mut redis.connection, &keys, &limit, None, None).await.unwrap();
    keys
}

/// Prints the µs of a call in each of `ways`, in turns, the best of each: of Redis in pipelines, and of the script alone
/// where each call waits for the one before, as with few takes a second.
async fn measure(redis: &mut Redis, title: &str, ways: &[Way]) {
    let mut best = vec![[f64::INFINITY; 2]; ways.len()];
    for way in ways {
        way.script.prepare_invoke().load_async(&mut redis.connection).await.unwrap();
    }
    for _ in 0..ROUNDS {
        for (way, best) in ways.iter().zip(&mut best) {
            for (best, calls_at_once) in best.iter_mut().zip([PIPELINED, 1]) {
                let alone = calls_at_once == 1;
                let before = if alone { in_scripts(redis).await } else { busy(redis).await };
                for calls in way.calls.chunks(calls_at_once) {
                    let mut pipe = Pipeline::new();
                    for (keys, args) in calls {
                        pipe.cmd("EVALSHA")
                            .arg(way.script.get_hash())
                            .arg(keys.len())
                            .arg(keys)
                            .arg(args)
                            .ignore();
                    }
                    pipe.exec_async(&mut redis.connection).await.unwrap();
                }
                let after = if alone { in_scripts(redis).await } else { busy(redis).await };
                *best = best.min((after - before) / way.calls.len() as f64);
            }
        }
    }
    let [ours, ours_alone] = best[0];
    for (way, [micros, alone]) in ways.iter().zip(&best) {
        let (ratio, ratio_alone) = (ours / micros, ours_alone / alone);
        let name = way.name;
        eprintln!(
            "{title}: {micros:.2} µs {name}, ours is {ratio:.2} of it; alone {alone:.2}, {ratio_alone:.2}"
        );
    }
}

/// µs spent in scripts, all in all.
async fn in_scripts(redis: &mut Redis) -> f64 {
    let info: String = redis.ask(&["INFO", "commandstats"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
    let micros = line.and_then(|line| line.split(',').find_map(|field| field.strip_prefix("usec=")));
    micros.map_or(0.0, |micros| micros.parse().unwrap())
}

/// µs that Redis's main thread has been busy, all in all: as others may be on the machine, not the time that passed.
async fn busy(redis: &mut Redis) -> f64 {
    let info: String = redis.ask(&["INFO", "cpu"]).await;
    let seconds = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').parse().unwrap()
    };
    (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread")) * 1e6
}
