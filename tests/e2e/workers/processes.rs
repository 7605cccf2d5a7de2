//! Law 1 with processes: eight workers share a limit, and no window of time holds more than `capacity + rate × window`.
//!
//! All workers take at once for a while and then rest, so that their buckets are empty, nearly full and full by turns. By
//! hand for a minute, with figures:
//!
//! `TOPUP_TEST_SECONDS=60 cargo test -p topup-tests --test e2e -- workers::processes --nocapture`

use std::{env, time::Duration};

use topup_tests::{Attempt, Pace, clock, eventually, log::TRAFFIC, stalls::void};

use super::{
    fixture::Fixture,
    oracle::{Oracle, no_errors},
};

const WORKERS: usize = 8;
/// Seconds of a run, unless the environment names others.
const SECONDS: u64 = 2;

/// Runs the workers on a limit of these terms, and judges all their takes.
async fn never_over(capacity: u32, rate: u32, settings: &str, every: Duration) {
    let seconds = env::var("TOPUP_TEST_SECONDS").map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let limit = format!("[limit.shared]\ncapacity = {capacity}\nrate = \"{rate}/s\"\n{settings}");
    let fixture = Fixture::set(&limit).await;
    let burst_and_rest = Some((Duration::from_millis(200), Duration::from_millis(800)));
    let workers = fixture.workers_at(WORKERS, "shared", Pace { every, burst_and_rest }).await;
    let end = clock::now() + seconds * 1_000_000;
    eventually(TRAFFIC + Duration::from_secs(seconds), async || clock::now() > end).await;
    let attempts = workers.stop().await;
    no_errors(&attempts);
    let judgement = Oracle::new(capacity, rate.into()).judge(&attempts);
    println!(
        "{WORKERS} workers, {rate}/s, capacity {capacity}, {:.1} s: {} of {} takes allowed, {:.1} % of the ideal; worst excess \
         {:.3} tokens",
        judgement.seconds,
        judgement.allowed,
        attempts.len(),
        judgement.share() * 100.0,
        judgement.excess,
    );
    assert!(judgement.never_over().share() > 0.8, "{judgement:?}");
    if attempts.iter().all(Attempt::is_allowed) {
        void(&format!("law 1 at {rate}/s: the machine is too busy to reach the limit"));
    }
}

#[tokio::test]
async fn no_window_holds_more_than_its_terms_at_ten_a_second() {
    never_over(20, 10, "", Duration::from_millis(5)).await;
}

/// The time of a token is no whole number of µs.
#[tokio::test]
async fn no_window_holds_more_than_its_terms_at_thirty_a_second() {
    never_over(20, 30, "", Duration::from_millis(5)).await;
}

#[tokio::test]
async fn no_window_holds_more_than_its_terms_at_a_thousand_a_second() {
    never_over(1_000, 1_000, "", Duration::from_millis(1)).await;
}

#[tokio::test]
async fn no_window_holds_more_than_its_terms_with_leases() {
    let lease = "lease = { max = 100, ttl = \"1s\" }\n";
    never_over(500, 1_000, lease, Duration::from_millis(1)).await;
}
