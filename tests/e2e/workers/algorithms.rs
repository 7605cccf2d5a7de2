//! All algorithms have the same contract, and each keeps its own law under many workers at once.

use std::{collections::BTreeMap, time::Duration};

use tokio::task::JoinSet;
use topup::{Decision, Error, Throttled};
use topup_tests::{Attempt, Cli, Redis, SOON, clock, eventually};
use topup_wire::limit::Algorithm;

use super::{
    fixture::{Fixture, patient},
    oracle::{Oracle, no_errors},
};

/// Longer than any test: who waits it out has failed.
const LONG: Duration = Duration::from_secs(600);

/// A limit `name` of `capacity` tokens at once, and as many every `time`.
fn limit(name: &str, algorithm: Algorithm, capacity: u32, time: &str) -> String {
    let terms = if algorithm.has_windows() {
        format!("limit = {capacity}\nwindow = \"{time}\"")
    } else {
        format!("capacity = {capacity}\nrate = \"{capacity}/{time}\"")
    };
    format!("[limit.{name}]\nalgorithm = \"{algorithm}\"\n{terms}\n")
}

/// One such limit of each algorithm, by its name.
async fn one_of_each(capacity: u32, time: &str) -> Fixture {
    let limits = Algorithm::ALL.map(|algorithm| limit(algorithm.as_str(), algorithm, capacity, time));
    Fixture::set(&limits.concat()).await
}

#[tokio::test]
async fn the_contract_is_the_same_whatever_the_algorithm() {
    let fixture = one_of_each(10, "1h").await;
    for algorithm in Algorithm::ALL.map(Algorithm::as_str) {
        let bucket = fixture.bucket(algorithm);
        // A take of the sliding counter counts to the end of the next window.
        let longest = if algorithm == "sliding-counter" { 2 * 3_600 } else { 3_600 };
        let left = async || bucket.peek().await.unwrap().remaining();
        assert_eq!(bucket.peek().await.unwrap(), Decision::Allowed { remaining: 10, capacity: 10 });
        assert_eq!(fixture.bucket_keys().await, [""; 0], "{algorithm}: a look leaves a key");
        for remaining in (5..10).rev() {
            let taken = bucket.take(1).await.unwrap();
            assert_eq!(taken, Decision::Allowed { remaining, capacity: 10 }, "{algorithm}");
        }
        let denied = bucket.take(6).await.unwrap();
        assert_eq!((denied.is_allowed(), left().await), (false, 5), "{algorithm}");
        let wait = denied.retry_after().unwrap();
        assert!((1..=longest).contains(&wait.as_secs()), "{algorithm}: {wait:?}");
        assert!(bucket.take(5).await.unwrap().is_allowed(), "{algorithm}: all that is there");
        let denied = bucket.take(1).await.unwrap();
        assert!(denied.retry_after().unwrap() <= Duration::from_secs(longest), "{algorithm}: {denied:?}");
        assert_eq!(bucket.refund(4).await.unwrap(), 4, "{algorithm}");
        assert!(bucket.take(3).await.unwrap().is_allowed(), "{algorithm}: what was given back");
        assert!(!bucket.take(2).await.unwrap().is_allowed(), "{algorithm}");
        assert!(matches!(bucket.take(11).await, Err(Error::ExceedsCapacity { capacity: 10, .. })));
        bucket.reset().await.unwrap();
        assert_eq!(left().await, 10, "{algorithm}");
        // A bucket that was filled by hand keeps a key for a second.
        eventually(SOON, async || fixture.bucket_keys().await.is_empty()).await;
    }
}

#[tokio::test]
async fn waiters_are_served_whatever_the_algorithm() {
    let fixture = one_of_each(5, "200ms").await;
    let mut waiters = JoinSet::new();
    for algorithm in Algorithm::ALL.map(Algorithm::as_str) {
        for count in [1, 1, 1, 2, 1, 5, 1, 1, 1, 3] {
            let bucket = fixture.bucket(algorithm);
            waiters.spawn(async move { (algorithm, bucket.wait(count, LONG).await) });
        }
    }
    let all = async {
        while let Some(waited) = waiters.join_next().await {
            let (algorithm, decision) = waited.unwrap();
            assert!(decision.unwrap().is_allowed(), "{algorithm}");
        }
    };
    tokio::time::timeout(SOON, all).await.expect("17 tokens at 25 a second");
}

/// All attempts of 8 processes on `limit`, until they have had `tokens`.
async fn load(fixture: &Fixture, limit: &str, tokens: usize) -> Vec<Attempt> {
    let workers = fixture.workers(8, limit, Duration::from_millis(4)).await;
    workers.log.allowed(tokens).await;
    let attempts = workers.stop().await;
    no_errors(&attempts);
    attempts
}

#[tokio::test]
async fn no_more_than_capacity_and_rate_is_taken_of_buckets_that_fill() {
    let fixture = one_of_each(20, "200ms").await;
    for algorithm in [Algorithm::LazyTokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket] {
        let attempts = load(&fixture, algorithm.as_str(), 120).await;
        let judgement = Oracle::new(20, 100.0).judge(&attempts).never_over().within(0.02);
        println!("{algorithm}: {judgement:?}");
    }
}

#[tokio::test]
async fn no_more_than_its_limit_is_taken_in_an_aligned_window() {
    let aligned = "limit = 20\nwindow = \"200ms\"\naligned = true\n";
    let config = format!(
        "[limit.fixed]\nalgorithm = \"fixed-window\"\n{aligned}\
         [limit.counter]\nalgorithm = \"sliding-counter\"\nlimit = 20\nwindow = \"200ms\"\n"
    );
    let fixture = Fixture::set(&config).await;
    for limit in ["fixed", "counter"] {
        let attempts = load(&fixture, limit, 140).await;
        // The workers' clock began with the machine: by so much is that of Redis ahead, give or take the question.
        let before = clock::now();
        let (seconds, micros): (u64, u64) = fixture.redis.ask(&["TIME"]).await;
        let asked = clock::now() - before;
        let ahead = seconds * 1_000_000 + micros - before;
        let window = |at: u64| (at + ahead) / 200_000;
        let (mut surely, mut perhaps) = (BTreeMap::<u64, u32>::new(), BTreeMap::<u64, u32>::new());
        for attempt in attempts.iter().filter(|attempt| attempt.is_allowed()) {
            // The take happened in one of these windows.
            let [from, to] = [attempt.sent - asked, attempt.received].map(window);
            for window in from..=to {
                *perhaps.entry(window).or_default() += 1;
            }
            if from == to {
                *surely.entry(from).or_default() += 1;
            }
        }
        println!("{limit}: {surely:?} to {perhaps:?}");
        assert!(surely.values().all(|taken| *taken <= 20), "{limit}: {surely:?}");
        assert!(perhaps.values().any(|taken| *taken >= 15), "{limit}: hardly any was full: {perhaps:?}");
    }
}

#[tokio::test]
async fn no_more_than_its_limit_is_taken_in_any_window_that_slides() {
    let rules = "[{ limit = 20, window = \"200ms\" }, { limit = 50, window = \"1s\" }]";
    let fixture =
        Fixture::set(&format!("[limit.api]\nalgorithm = \"sliding-window\"\nrules = {rules}\n")).await;
    let attempts = load(&fixture, "api", 110).await;
    let allowed: Vec<_> = attempts.into_iter().filter(Attempt::is_allowed).collect();
    for (limit, window) in [(20, 200_000), (50, 1_000_000)] {
        let within = |i: usize| {
            let from = allowed[i].received;
            // Takes sent after the first answer, and answered within a window of the first sending, surely count with it.
            let surely = |other: &&Attempt| other.sent > from && other.received < allowed[i].sent + window;
            1 + allowed.iter().filter(surely).count()
        };
        let most = (0..allowed.len()).map(within).max().unwrap();
        println!("{most} of {limit} in {window} µs");
        assert!(most <= limit, "{most} in {window} µs");
    }
}

#[tokio::test]
async fn reservations_proceed_at_the_rate() {
    let config = "[limit.slow]\nalgorithm = \"leaky-bucket\"\ncapacity = 5\nrate = \"1/2s\"\n\
                  [limit.daily]\nalgorithm = \"leaky-bucket\"\ncapacity = 7\nrate = \"7/1d\"\n\
                  [limit.other]\ncapacity = 7\nrate = \"7/1d\"\n";
    let fixture = Fixture::set(config).await;
    for (limit, capacity, every) in [("slow", 5, 2.0), ("daily", 7, 86_400.0 / 7.0)] {
        let bucket = fixture.bucket(limit);
        let mut first = None;
        for i in 0..capacity {
            let sent = clock::now();
            let reserved = bucket.reserve(1, LONG * 1_000).await.unwrap();
            let received = clock::now();
            let (begun, ended) = *first.get_or_insert((sent, received));
            let delay = reserved.delay().unwrap().as_secs_f64();
            let ideal = f64::from(i) * every;
            // Each reservation was made at some instant between its call and its answer, as was the first.
            let (earliest, latest) = (delay + seconds(begun, received), delay + seconds(ended, sent));
            assert!(
                earliest >= ideal && latest <= ideal,
                "{limit}: {earliest} s to {latest} s, not {ideal} s"
            );
        }
        let denied = bucket.reserve(1, LONG * 1_000).await.unwrap();
        let retry = denied.retry_after().expect("the queue is full").as_secs_f64();
        let passed = first.map_or(0.0, |(begun, _)| seconds(begun, clock::now()));
        assert!((every - passed - 1e-3..=every).contains(&retry), "{limit}: {retry} s after {passed} s");
        // Room is made for one, by whoever gives back.
        assert_eq!(bucket.refund(1).await.unwrap(), 1);
        let patience = Duration::from_secs_f64(every);
        let denied = bucket.reserve(1, patience).await.unwrap();
        let retry = denied.retry_after().expect("it would take too long").as_secs_f64();
        let ideal = f64::from(capacity - 2) * every;
        let passed = first.map_or(0.0, |(begun, _)| seconds(begun, clock::now()));
        assert!(
            (ideal - passed - 1e-3..=ideal).contains(&retry),
            "{limit}: {retry} s after {passed} s, not {ideal} s"
        );
    }
    let error = fixture.bucket("other").reserve(1, LONG).await.unwrap_err();
    assert!(matches!(error, Error::NoQueue { algorithm: "token-bucket", .. }), "{error}");
}

#[tokio::test]
async fn a_throttle_answers_as_the_command_does_and_needs_no_limit() {
    let redis = Redis::start().await;
    let topup = patient(redis.url()).await;
    // Two hours for each, of which a busy machine takes no minute.
    let ask = async |key, quantity| {
        let told: Throttled = topup.throttle(key, 15, 30, 216_000, quantity).await.unwrap();
        let minutes = |seconds: u64| seconds.div_ceil(60);
        (told.limited, told.limit, told.remaining, told.retry_after.map(minutes), minutes(told.reset_after))
    };
    assert_eq!(ask("alice", 1).await, (false, 16, 15, None, 120));
    assert_eq!(ask("alice", 10).await, (false, 16, 5, None, 1_320));
    assert_eq!(ask("alice", 6).await, (true, 16, 5, Some(120), 1_320));
    assert_eq!(ask("alice", 17).await, (true, 16, 5, None, 1_320));
    assert_eq!(ask("bob", 1).await, (false, 16, 15, None, 120));
    let run = async |key, quantity| {
        Cli::new(&["throttle", key, "15", "30", "216000", quantity]).redis(&redis).run().await
    };
    let told = run("alice", "6").await;
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.stdout.starts_with("1\n16\n5\n7"), "{told:?}");
    let told = run("carol", "1").await;
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "0\n16\n15\n-1\n7200\n"), "{told:?}");
    let told = Cli::new(&["throttle", "carol", "15", "0", "60"]).redis(&redis).run().await;
    assert_eq!(told.code, Some(64));
    assert!(told.stderr.contains("count is a whole number from 1"), "{told:?}");
    assert!(matches!(topup.throttle("", 15, 30, 60, 1).await, Err(Error::InvalidKey(_))));
    assert!(matches!(topup.throttle("a", 15, 30, 0, 1).await, Err(Error::InvalidThrottle(_))));
}

#[tokio::test]
async fn the_command_line_takes_whatever_the_algorithm() {
    let fixture = one_of_each(3, "1h").await;
    for algorithm in Algorithm::ALL.map(Algorithm::as_str) {
        let run = async |word| Cli::new(&[word, algorithm]).redis(&fixture.redis).run().await;
        for left in [2, 1, 0] {
            assert_eq!(run("take").await.stdout, format!("allowed, {left} of 3 left\n"), "{algorithm}");
        }
        let denied = run("take").await;
        assert!(denied.stdout.starts_with("denied, 0 of 3 left, retry after "), "{algorithm}: {denied:?}");
        assert!(run("peek").await.stdout.starts_with("denied, 0 of 3 left, retry after "), "{algorithm}");
        assert_eq!(run("reset").await.stdout, "allowed, 3 of 3 left\n", "{algorithm}");
    }
    // A status of a busy machine leaves limits out, and says so.
    eventually(SOON, async || {
        let status = Cli::new(&["status"]).redis(&fixture.redis).run().await.stdout;
        Algorithm::ALL.map(Algorithm::as_str).iter().all(|algorithm| {
            let row = status.lines().find(|line| line.starts_with(&format!("{algorithm} ")));
            row.is_some_and(|row| row.contains("3/h"))
        })
    })
    .await;
}

/// From one instant to another, in s.
fn seconds(from: u64, until: u64) -> f64 {
    (until as f64 - from as f64) / 1e6
}
