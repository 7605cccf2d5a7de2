//! Without a daemon workers take by script: exact, if slower (rule 7).

use std::time::Duration;

use topup_tests::{SOON, eventually};

use super::{
    fixture::{Fixture, Tasks, patient, ready},
    oracle::{Oracle, no_errors},
};

const CONFIG: &str = "[limit.api]\ncapacity = 10_000\nrate = \"10/s\"\n";
const TIGHT: &str = "[limit.api]\ncapacity = 10\nrate = \"100/s\"\n";

/// Whether the next takes of a bucket known to be below full are bare `DECR`s.
async fn takes_by_decr(fixture: &Fixture) -> bool {
    let before = fixture.redis.command_calls("decr").await;
    for _ in 0..5 {
        assert!(fixture.bucket("api").take(1).await.unwrap().is_allowed());
    }
    fixture.redis.command_calls("decr").await - before > 2
}

#[tokio::test]
async fn takes_go_by_script_while_no_daemon_lives_and_by_decr_again_after() {
    let mut fixture = Fixture::set(CONFIG).await;
    eventually(SOON, async || takes_by_decr(&fixture).await).await;
    fixture.kill_daemon().await;
    eventually(SOON, async || !takes_by_decr(&fixture).await).await;
    let _next = ready(CONFIG, &fixture.redis).await;
    fixture.bucket("api").reset().await.unwrap();
    eventually(SOON, async || takes_by_decr(&fixture).await).await;
}

#[tokio::test]
async fn a_daemon_that_stops_in_order_is_missed_at_the_next_look() {
    let mut fixture = Fixture::set(CONFIG).await;
    fixture.daemon.signal(topup_tests::Signal::TERM);
    assert!(fixture.daemon.wait_exit(SOON).await.success());
    eventually(SOON, async || !takes_by_decr(&fixture).await).await;
}

#[tokio::test]
async fn without_any_daemon_takes_are_exact() {
    let mut fixture = Fixture::set(TIGHT).await;
    fixture.kill_daemon().await;
    let late = patient(fixture.redis.url()).await;
    let tasks = Tasks::start((0..4).map(|_| late.limit("api")), Duration::from_millis(8));
    tasks.log.allowed(200).await;
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    Oracle::new(10, 100.0).judge(&attempts).never_over().within(0.01);
}

#[tokio::test]
async fn daemons_may_die_and_come_back_as_they_like() {
    let mut fixture = Fixture::set(TIGHT).await;
    let workers = fixture.workers(2, "api", Duration::from_millis(4)).await;
    for _ in 0..3 {
        workers.log.allowed(40).await;
        fixture.kill_daemon().await;
        workers.log.allowed(40).await;
        fixture.daemon = ready(TIGHT, &fixture.redis).await;
    }
    let attempts = workers.stop().await;
    no_errors(&attempts);
    Oracle::new(10, 100.0).judge(&attempts).never_over().within(0.01);
}
