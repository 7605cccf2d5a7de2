//! The harness itself: what the other tests rely on.

use std::env;
use std::process::Command;
use std::time::Duration;

use tokio::net::UnixDatagram;
use topup_tests::{NotifySocket, Redis, SOON, Seed, eventually};

#[tokio::test]
async fn every_test_has_a_redis_of_its_own() {
    let (one, other) = (Redis::start().await, Redis::start().await);
    one.ask::<()>(&["SET", "key", "1"]).await;
    assert_eq!((one.dbsize().await, other.dbsize().await), (1, 0));
}

#[tokio::test]
async fn commands_are_counted_by_name() {
    let redis = Redis::start().await;
    for _ in 0..3 {
        redis.ask::<i64>(&["DECR", "key"]).await;
    }
    assert_eq!(redis.command_calls("decr").await, 3);
    assert_eq!(redis.command_calls("decrby").await, 0);
    redis.reset_stats().await;
    assert_eq!(redis.command_calls("decr").await, 0);
}

#[tokio::test]
async fn a_restarted_redis_is_reached_again() {
    let mut redis = Redis::tcp().await;
    redis.restart().await;
    assert_eq!(redis.dbsize().await, 0);
}

#[tokio::test]
async fn eventually_gives_what_it_waited_for() {
    let mut looks = 0;
    let found = eventually(SOON, async || {
        looks += 1;
        (looks == 3).then_some(looks)
    });
    assert_eq!(found.await, 3);
}

#[tokio::test]
#[should_panic(expected = "not within 10ms; the last look: \"still closed\"")]
async fn eventually_says_what_it_found_last() {
    eventually(Duration::from_millis(10), async || Err::<(), _>("still closed")).await;
}

#[tokio::test]
async fn the_notify_socket_hears_a_service() {
    let mut systemd = NotifySocket::bind();
    let service = UnixDatagram::unbound().unwrap();
    service.send_to(b"STATUS=starting", systemd.path()).await.unwrap();
    service.send_to(b"READY=1\nSTATUS=running", systemd.path()).await.unwrap();
    assert_eq!(systemd.wait_for("READY=1", SOON).await, "READY=1\nSTATUS=running");
    assert_eq!(systemd.seen(), ["STATUS=starting", "READY=1\nSTATUS=running"]);
}

#[test]
#[ignore = "run by the test below"]
fn a_seed_fails() {
    let _seed = Seed::new();
    panic!("so that the seed is printed");
}

#[test]
fn a_failing_seed_is_printed_and_replays() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["harness::a_seed_fails", "--exact", "--ignored", "--nocapture"])
        .env(topup_tests::seed::VARIABLE, "42")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("to replay this: TOPUP_TEST_SEED=42"), "{said}");
}
