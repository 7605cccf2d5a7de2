//! Worker processes that ask for more than there is: laws 1 and 2, from one end to the other.

use std::time::Duration;

use topup_tests::{Attempt, Redis};

use super::{
    fixture::{Fixture, ready},
    oracle::{Judgement, Oracle, no_errors},
};

const API: &str = "[limit.api]\ncapacity = 20\nrate = \"100/s\"\n";
const ONE: &str = "[limit.api]\ncapacity = 1\nrate = \"2/s\"\n";
const FAST: &str = "[daemon]\ntick = \"100ms\"\n[limit.api]\ncapacity = 10\nrate = \"1000/s\"\n";

/// Four workers, one of whom asks every 2 ms: five times the 100 a second there are.
const FIVEFOLD: Duration = Duration::from_millis(8);

/// The daemons of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Daemons {
    One,
    Two,
    KilledMidway,
}

/// Four workers at five times the rate, until they have had `tokens`.
async fn overload(daemons: Daemons, tokens: usize) -> Judgement {
    let mut fixture = Fixture::set(API).await;
    let _second = match daemons {
        Daemons::Two => Some(ready(API, &fixture.redis).await),
        _ => None,
    };
    let workers = fixture.workers(4, "api", FIVEFOLD).await;
    workers.log.allowed(tokens / 2).await;
    if daemons == Daemons::KilledMidway {
        fixture.kill_daemon().await;
    }
    workers.log.allowed(tokens / 2).await;
    judged(&Oracle::new(20, 100.0), &workers.stop().await)
}

/// One worker asks every 10 ms for the one token of half a second.
async fn one_at_a_time(tokens: usize) -> Judgement {
    let fixture = Fixture::set(ONE).await;
    let workers = fixture.workers(1, "api", Duration::from_millis(10)).await;
    workers.log.allowed(tokens).await;
    let attempts = workers.stop().await;
    let times: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.is_allowed()).collect();
    for pair in times.windows(2) {
        let apart = pair[1].received - pair[0].sent;
        assert!(apart >= 499_000, "two tokens {apart} µs apart");
    }
    judged(&Oracle::new(1, 2.0), &attempts)
}

/// A bucket of 10 ms, asked at twice its rate; the tick is ten times that.
async fn fast(tokens: usize) -> Judgement {
    let fixture = Fixture::set(FAST).await;
    let workers = fixture.workers(4, "api", Duration::from_millis(2)).await;
    workers.log.allowed(tokens).await;
    judged(&Oracle::new(10, 1_000.0), &workers.stop().await)
}

fn judged(oracle: &Oracle, attempts: &[Attempt]) -> Judgement {
    no_errors(attempts);
    let judgement = oracle.judge(attempts);
    println!(
        "{} takes in {:.3} s: {} allowed of {:.1} supplied ({:.2} %), ideal {}; excess {:.2}",
        attempts.len(),
        judgement.seconds,
        judgement.allowed,
        judgement.supply,
        judgement.allowed as f64 / judgement.supply * 100.0,
        judgement.ideal,
        judgement.excess,
    );
    judgement.never_over()
}

#[tokio::test]
async fn four_workers_get_all_there_is_and_no_more() {
    overload(Daemons::One, 300).await.within(0.01);
}

#[tokio::test]
async fn a_second_daemon_adds_no_token() {
    overload(Daemons::Two, 300).await.within(0.01);
}

#[tokio::test]
async fn a_daemon_that_dies_takes_and_adds_no_token() {
    overload(Daemons::KilledMidway, 300).await.within(0.01);
}

#[tokio::test]
async fn one_token_at_a_time_never_comes_early() {
    // Nor late: within one of an ideal bucket.
    one_at_a_time(6).await.within(0.0);
}

#[tokio::test]
async fn a_bucket_smaller_than_a_tick_loses_nothing() {
    let judgement = fast(3_000).await;
    assert!(judgement.share() >= 0.97, "{judgement:?}");
}

#[tokio::test]
async fn workers_that_come_and_go_share_one_bucket() {
    let fixture = Fixture::on(Redis::start().await, API).await;
    let (mut attempts, mut pools) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        pools.push(fixture.workers(2, "api", FIVEFOLD).await);
        pools.last().expect("it has just come").log.allowed(20).await;
        if pools.len() > 2 {
            attempts.extend(pools.remove(0).stop().await);
        }
    }
    for workers in pools {
        attempts.extend(workers.stop().await);
    }
    attempts.sort_by_key(|attempt| attempt.received);
    judged(&Oracle::new(20, 100.0), &attempts).within(0.02);
}

/// The same at full length and to the stricter figures: `cargo test -p topup-tests -- --ignored by_hand`.
mod by_hand {
    use super::*;

    #[tokio::test]
    #[ignore = "10 s, on an idle machine"]
    async fn one_daemon() {
        overload(Daemons::One, 1_000).await.within(0.005);
    }

    #[tokio::test]
    #[ignore = "10 s, on an idle machine"]
    async fn two_daemons() {
        overload(Daemons::Two, 1_000).await.within(0.005);
    }

    #[tokio::test]
    #[ignore = "10 s, on an idle machine"]
    async fn a_daemon_killed() {
        overload(Daemons::KilledMidway, 1_000).await.within(0.005);
    }

    #[tokio::test]
    #[ignore = "20 s, on an idle machine"]
    async fn capacity_one() {
        one_at_a_time(40).await.within(0.0);
    }

    #[tokio::test]
    #[ignore = "10 s, on an idle machine"]
    async fn a_thousand_a_second() {
        let judgement = fast(10_000).await;
        assert!(judgement.allowed as f64 >= 0.99 * judgement.supply, "{judgement:?}");
    }
}
