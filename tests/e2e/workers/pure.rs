//! `catch_up = false`: tokens come at the daemon's ticks only.

use std::time::Duration;

use topup_tests::{Proxy, SOON, Stalls, clock, eventually};

use super::{
    fixture::{Fixture, Tasks, patient},
    oracle::{Oracle, no_errors},
};

const CONFIG: &str = "[limit.api]\ncapacity = 50\nrate = \"100/s\"\ncatch_up = false\n";
/// The credit of one tick of 50 ms.
const TICK: f64 = 5.0;

#[tokio::test]
async fn tokens_come_by_ticks_and_none_too_many() {
    let (fixture, stalls) = (Fixture::set(CONFIG).await, Stalls::watch());
    let tasks = Tasks::start((0..4).map(|_| fixture.bucket("api")), Duration::from_millis(8));
    tasks.log.allowed(250).await;
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    let oracle = Oracle::new(50, 100.0);
    // The bucket fills while the machine stands still. Then the law allows it a tick's credit more.
    let busy = stalls.below(Duration::from_millis(50), "the strict law");
    let oracle = if busy { oracle } else { oracle.early(TICK) };
    let judgement = oracle.judge(&attempts).never_over();
    // The tokens of the last ticks have not come yet, and each comes a tick late at most.
    assert!(judgement.share() >= 0.9, "{judgement:?}");
}

#[tokio::test]
async fn a_dead_daemon_is_waited_for_without_hurry() {
    let mut fixture = Fixture::set(CONFIG).await;
    let proxy = Proxy::before(&fixture.redis).await;
    let topup = patient(proxy.url()).await;
    let bucket = topup.limit("api");
    fixture.kill_daemon().await;
    // Its last tick may have been just before.
    eventually(SOON, async || !bucket.take(1).await.unwrap().is_allowed()).await;
    let tasks = Tasks::start([bucket], Duration::from_millis(1));
    tasks.log.answered(100).await;
    let (before, begun) = (proxy.requests(), clock::now());
    tasks.log.answered(500).await;
    let (asked, seconds) = (proxy.requests() - before, (clock::now() - begun) as f64 / 1e6);
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    println!("{asked} commands in {seconds:.2} s without a daemon");
    // Every quarter of a tick, and the looks after the daemon.
    assert!(asked as f64 <= 50.0 * seconds + 1.0, "{asked} in {seconds} s, for {} takes", attempts.len());
}
