//! `catch_up = false`: tokens come at the daemon's ticks only.

use std::time::Duration;

use tokio::time::sleep;
use topup_tests::{Proxy, SOON, Stalls, eventually};

use super::{
    oracle::{Oracle, no_errors},
    stage::{Stage, Tasks, patient},
};

const CONFIG: &str = "[limit.api]\ncapacity = 50\nrate = \"100/s\"\ncatch_up = false\n";

#[tokio::test]
async fn tokens_come_by_ticks_and_none_too_many() {
    let (stage, stalls) = (Stage::set(CONFIG).await, Stalls::watch());
    let tasks = Tasks::start((0..4).map(|_| stage.bucket("api")), Duration::from_millis(8));
    sleep(Duration::from_secs(3)).await;
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    let oracle = Oracle::new(50, 100.0);
    // The bucket fills while a machine stalls, and then it has what has come since the last tick as well.
    let oracle = if stalls.worst() < 50_000 { oracle.strict() } else { oracle };
    let judgement = oracle.judge(&attempts).never_over();
    // The tokens of the last ticks have not come yet, and each comes a tick late at most.
    assert!(judgement.share() >= 0.9, "{judgement:?}");
}

#[tokio::test]
async fn a_dead_daemon_is_waited_for_without_hurry() {
    let mut stage = Stage::set(CONFIG).await;
    let proxy = Proxy::before(&stage.redis).await;
    let topup = patient(proxy.url()).await;
    let bucket = topup.limit("api");
    stage.kill_daemon().await;
    // Its last tick may have been just before.
    eventually(SOON, async || !bucket.take(1).await.unwrap().is_allowed()).await;
    let tasks = Tasks::start([bucket], Duration::from_millis(1));
    sleep(Duration::from_millis(200)).await;
    let before = proxy.requests();
    sleep(Duration::from_secs(1)).await;
    let asked = proxy.requests() - before;
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    println!("{asked} commands in a second without a daemon");
    // Every quarter of a tick, and the looks after the daemon.
    assert!(asked <= 50, "{asked} in a second, for {} takes", attempts.len());
}
