//! Price of the two sliding windows: one in exactness, the other in memory.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use topup_twin::{Record, SlidingCounter, SlidingLog, State};
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, Rule, Supply, Terms, Windows},
    namespace::Namespace,
    reply::Verdict,
    scripts,
};

use super::Scene;
use crate::{
    generators::limit,
    server::{Redis, publish},
};

const MINUTE: u64 = 60_000_000;
const BEGIN: u64 = 30_000_000 * MINUTE;

fn per_minute(algorithm: Algorithm, tokens: u64) -> Limit {
    Limit { algorithm, terms: windows(tokens, MINUTE), ..limit(1, "1/s") }
}

fn windows(tokens: u64, length: u64) -> Terms {
    let rule = Rule::new(tokens, Duration::from_micros(length)).unwrap();
    let windows = Windows::new(&[rule], false).unwrap();
    Terms { capacity: windows.capacity(), supply: Supply::Windows(windows) }
}

/// The admitted ones of takes at these instants.
fn admitted<S: State>(tokens: u64, takes: &[u64]) -> Vec<u64> {
    let record = Record::new(&per_minute(S::ALGORITHM, tokens), BEGIN);
    let mut state = None::<S>;
    let mut take = |at: &&u64| S::settle(&record, &mut state, Operation::Take(1), **at);
    takes.iter().filter(|at| take(at).verdict == Verdict::Allowed).copied().collect()
}

/// The most in any minute.
fn most(admitted: &[u64]) -> usize {
    let within = |i: usize| admitted[i..].iter().take_while(|at| **at < admitted[i] + MINUTE).count();
    (0..admitted.len()).map(within).max().unwrap_or(0)
}

/// The counter treats takes of the earlier minute as spread evenly. Where they were, it admits the same as the log.
/// Where all of them came at its end, it admits up to twice the limit within a minute, and never more.
#[test]
fn the_sliding_counter_is_exact_for_even_takes_and_never_admits_twice_its_limit() {
    const LIMIT: u64 = 100;
    let mut rng = StdRng::seed_from_u64(7);
    let even: Vec<u64> = (0..3_000).map(|i| BEGIN + i * 300_000).collect();
    let mut at = BEGIN;
    let random: Vec<u64> = (0..3_000)
        .map(|_| {
            at += rng.random_range(0..600_000);
            at
        })
        .collect();
    let bursts: Vec<u64> = (0..60).flat_map(|i| vec![BEGIN + i * 17_000_000; 50]).collect();
    // All at the end of each other minute, and then whatever is admitted.
    let worst: Vec<u64> = (0..20)
        .flat_map(|i| {
            let end = BEGIN + (2 * i + 1) * MINUTE - 1;
            vec![end; 100].into_iter().chain((0..6_000).map(move |j| end + 1 + j * 10_000))
        })
        .collect();
    for (name, takes, bound) in
        [("even", &even, 1.01), ("random", &random, 1.05), ("bursts", &bursts, 1.2), ("worst", &worst, 2.0)]
    {
        let (exact, about) = (admitted::<SlidingLog>(LIMIT, takes), admitted::<SlidingCounter>(LIMIT, takes));
        let (by_log, by_counter) = (most(&exact), most(&about));
        eprintln!(
            "{name}: the log admits {} and at most {by_log} a minute, the counter {} and {by_counter}",
            exact.len(),
            about.len()
        );
        assert!(by_log as u64 <= LIMIT);
        assert!((by_counter as f64) < bound * LIMIT as f64 + 1.0, "{name}: {by_counter}");
        assert!(by_counter < 2 * LIMIT as usize);
        assert!(about.len() as f64 >= 0.9 * exact.len() as f64, "{name}: {} of {}", about.len(), exact.len());
    }
}

/// However much has gone out of its window, a take removes a slice of it only; and a few takes, all of it.
#[tokio::test]
async fn a_log_is_trimmed_a_slice_at_a_time_and_grows_no_more() {
    let mut scene = Scene::set(Redis::start().await, per_minute(Algorithm::SlidingWindow, 5_000)).await;
    let state = scene.keys.state(Algorithm::SlidingWindow, "a");
    let (mut connection, keys) = (scene.redis.connection.clone(), scene.keys.clone());
    let mut take = async |count| {
        let take = Operation::Take(count);
        scripts::settle(&mut connection, Algorithm::SlidingWindow, &keys, "a", take, true, None)
            .await
            .unwrap()
    };
    for _ in 0..5_000 {
        assert_eq!(take(1).await.verdict, Verdict::Allowed);
    }
    assert_eq!(take(1).await.verdict, Verdict::Denied);
    // As if it had all been taken a minute ago.
    let moved = redis::Script::new(include_str!("age.lua"));
    scene.redis.call::<()>(moved.key(&state).arg(MINUTE)).await;
    let mut lengths = vec![scene.redis.ask::<u64>(&["LLEN", &state]).await];
    for _ in 0..12 {
        assert_eq!(take(1).await.verdict, Verdict::Allowed);
        lengths.push(scene.redis.ask(&["LLEN", &state]).await);
    }
    assert!(lengths.windows(2).all(|pair| pair[0] <= pair[1] + 1_000), "too many at once: {lengths:?}");
    assert!(lengths[12] <= 12 + 1, "too many stay: {lengths:?}");
}

/// Checks the figures of `docs/wire.md` on memory and on the longest pauses.
///
/// ```text
/// cargo test --release -p topup-wire --test scripts -- --ignored --nocapture bytes_of_a_million
/// ```
#[tokio::test]
#[ignore = "measures, for a minute"]
async fn bytes_of_a_million_takes_a_minute() {
    const LIMIT: u64 = 1_000_000;
    let mut redis = Redis::start().await;
    let name = "mail".parse().unwrap();
    let keys = ShardKeys::new(Namespace::default(), &name, 0);
    for algorithm in Algorithm::ALL {
        let limit = if algorithm.has_windows() {
            // An hour, so that a busy machine can take as much as counts in a minute.
            Limit { terms: windows(LIMIT, 60 * MINUTE), ..per_minute(algorithm, LIMIT) }
        } else {
            Limit { algorithm, ..limit(LIMIT, "1000000/min") }
        };
        redis.ask::<()>(&["FLUSHALL"]).await;
        redis.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
        publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
        let takes_of_one = if algorithm == Algorithm::SlidingWindow { LIMIT } else { 1 };
        let takers = (0..64).map(|part| {
            let takes = (takes_of_one + 63 - part) / 64;
            let (mut connection, keys) = (redis.connection.clone(), keys.clone());
            tokio::spawn(async move {
                for _ in 0..takes {
                    let take = Operation::Take(1);
                    scripts::settle(&mut connection, algorithm, &keys, "a", take, true, None).await.unwrap();
                }
            })
        });
        for taker in takers.collect::<Vec<_>>() {
            taker.await.unwrap();
        }
        let state = keys.state(algorithm, "a");
        let mut bytes: u64 = redis.ask(&["MEMORY", "USAGE", &state, "SAMPLES", "0"]).await;
        if algorithm == Algorithm::TokenBucket {
            bytes += redis.ask::<u64>(&["MEMORY", "USAGE", &keys.due, "SAMPLES", "0"]).await;
        }
        eprintln!(
            "{algorithm}: {bytes} bytes after {takes_of_one} takes, {}",
            costs(&mut redis, "evalsha").await
        );
        if algorithm == Algorithm::SlidingWindow {
            for _ in 0..100 {
                let denied = Operation::Take(1_000);
                scripts::settle(&mut redis.connection, algorithm, &keys, "a", denied, true, None)
                    .await
                    .unwrap();
            }
            eprintln!("  denials of 1,000: {}", costs(&mut redis, "evalsha").await);
            redis.ask::<()>(&["DEL", &state]).await;
            eprintln!("  all of it removed: {}", costs(&mut redis, "del").await);
        }
    }
}

/// Cost of a command since the last call.
async fn costs(redis: &mut Redis, command: &str) -> String {
    let info: String = redis.ask(&["INFO", "commandstats"]).await;
    redis.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
    info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).unwrap_or_default().to_owned()
}
