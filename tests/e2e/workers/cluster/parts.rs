//! Plans, holds and permits, whose keys lie on all nodes.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use topup::{Client, Error};
use topup_tests::{SOON, eventually};

use super::{super::fixture::patient, Fixture};

const CONFIG: &str = r#"
[limit.user]
keyed = true
capacity = 10
rate = "1/h"
max_debt = 5
on_abandon = "refund"
hold_ttl = "1s"
plan.gold = { capacity = 100, rate = "1/h" }

[limit.gpu]
algorithm = "concurrency"
keyed = true
limit = 2
ttl = "30s"
"#;

/// Keys in all shards.
fn keys() -> impl Iterator<Item = String> {
    (0..16).map(|i| format!("key-{i}"))
}

async fn two() -> (Fixture, Client) {
    let fixture = Fixture::set(CONFIG).await;
    let other = patient(fixture.cluster.url()).await;
    (fixture, other)
}

/// A plan's bucket is on another node than that of the limit, and tokens move between them once.
#[tokio::test]
async fn a_key_keeps_its_tokens_when_its_plan_is_on_another_node() {
    let (fixture, other) = two().await;
    let topup = &fixture.topup;
    for key in keys() {
        assert_eq!(other.limit("user").key(&key).take(4).await.unwrap().remaining(), 6);
        topup.assign("user", &key, "gold", None).await.unwrap();
    }
    for key in keys() {
        let told = async || other.limit("user").key(&key).peek().await.unwrap();
        eventually(SOON, async || told().await.capacity() == 100).await;
        assert_eq!(told().await.remaining(), 6, "{key}");
        assert_eq!(topup.limit("user").key(&key).take(1).await.unwrap().remaining(), 5, "{key}");
        topup.unassign("user", &key).await.unwrap();
    }
    for key in keys() {
        let told = async || other.limit("user").key(&key).peek().await.unwrap();
        eventually(SOON, async || told().await.capacity() == 10).await;
        assert_eq!(told().await.remaining(), 5, "{key}");
    }
    let refused = topup.assign("user", "x", "silver", None).await;
    assert!(matches!(refused, Err(Error::UnknownPlan { .. })), "{refused:?}");
}

/// The daemon tells the tokens that a worker is moving once they are moved: the worker's turn ends while the daemon looks.
#[tokio::test]
async fn the_daemon_waits_for_a_worker_that_moves_tokens() {
    let fixture = Fixture::set(&format!("[admin]\nlisten = \"127.0.0.1:0\"\n{CONFIG}")).await;
    let address = || {
        let lines = fixture.daemon.lines();
        lines.iter().find_map(|line| Some(line.split_once("admin server listens on ")?.1.trim().to_owned()))
    };
    eventually(SOON, async || address().is_some()).await;
    let address = address().unwrap();
    let topup = &fixture.topup;
    for key in keys() {
        assert_eq!(topup.limit("user").key(&key).take(4).await.unwrap().remaining(), 6);
        topup.assign("user", &key, "gold", None).await.unwrap();
    }
    // This assignment is the last one in force.
    topup.assign("user", "last", "gold", None).await.unwrap();
    eventually(SOON, async || topup.limit("user").key("last").peek().await.unwrap().capacity() == 100).await;
    let node = &fixture.cluster.masters()[fixture.cluster.home("{topup}").await].redis;
    for key in keys() {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let request = format!("GET /buckets/user?key={key} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        // Less than the daemon's looks take.
        let turn = format!("topup:{{topup}}:moved:!user:{key}");
        node.ask::<()>(&["SET", &turn, "1 user/gold", "PX", "30"]).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(SOON, stream.read_to_string(&mut answer)).await.expect("an answer").unwrap();
        assert!(answer.contains("\"tokens\":6"), "{answer}");
    }
}

/// Each hold is settled on the node of its bucket, and an abandoned one is put back by the daemon.
#[tokio::test]
async fn holds_on_all_nodes_are_settled_once_or_put_back() {
    let (fixture, other) = two().await;
    for key in keys() {
        let bucket = fixture.bucket("user").key(&key);
        let mut hold = bucket.reserve_cost(6).await.unwrap();
        for _ in 0..2 {
            assert_eq!(hold.settle(2).await.unwrap().charged, 2, "{key}");
        }
        assert_eq!(other.limit("user").key(&key).peek().await.unwrap().remaining(), 8, "{key}");
        let mut hold = bucket.reserve_cost(8).await.unwrap();
        let settled = hold.settle(20).await.unwrap();
        assert_eq!((settled.charged, settled.uncharged), (13, 7), "{key}");
        assert!(!other.limit("user").key(&key).take(1).await.unwrap().is_allowed(), "{key} is in debt");
    }
    for key in keys() {
        let bucket = other.limit("user").key(format!("{key}-abandoned"));
        let hold = bucket.reserve_cost(7).await.unwrap();
        assert_eq!(bucket.peek().await.unwrap().remaining(), 3);
        drop(hold);
    }
    for key in keys() {
        let bucket = fixture.bucket("user").key(format!("{key}-abandoned"));
        eventually(SOON, async || bucket.peek().await.unwrap().remaining() == 10).await;
    }
}

#[tokio::test]
async fn permits_on_all_nodes_are_held_by_so_many_at_once() {
    let (fixture, other) = two().await;
    for key in keys() {
        let (bucket, of_other) = (fixture.bucket("gpu").key(&key), other.limit("gpu").key(&key));
        let first = bucket.acquire(1, SOON).await.unwrap().unwrap();
        let second = of_other.acquire(1, SOON).await.unwrap().unwrap();
        assert!(bucket.acquire(1, Duration::ZERO).await.unwrap().is_err(), "{key}");
        let waiting = tokio::spawn({
            let bucket = bucket.clone();
            async move { bucket.acquire(1, SOON).await.unwrap().unwrap() }
        });
        second.release().await.unwrap();
        let third = waiting.await.unwrap();
        assert!(of_other.acquire(1, Duration::ZERO).await.unwrap().is_err(), "{key}");
        first.release().await.unwrap();
        third.release().await.unwrap();
        assert_eq!(of_other.peek().await.unwrap().remaining(), 2, "{key}");
    }
}
