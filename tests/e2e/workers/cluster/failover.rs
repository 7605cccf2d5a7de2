//! A master that is gone: the others go on, and what it had comes back with its replica.

use std::time::Duration;

use topup::{Bucket, Decision, OnOutage, OutageReason};
use topup_embedded::RedisServer;
use topup_tests::{Cluster, SOON, Stalls, clock, eventually, none_left};
use topup_wire::namespace::Namespace;

use super::{
    super::{
        fixture::{Tasks, briefly_patient, patient, ready},
        oracle::{Oracle, no_errors},
    },
    Fixture,
};

const CONFIG: &str = r#"
[limit]
user = { keyed = true, shards = 16, capacity = 10, rate = "50/s" }
pure = { keyed = true, shards = 16, catch_up = false, capacity = 10, rate = "50/s" }
"#;

const LIMITS: [&str; 2] = ["user", "pure"];
/// The credit of one tick of 50 ms: the pure form may give it early.
const TICK: f64 = 2.5;

/// For each master, a bucket of each limit that it has.
async fn buckets(fixture: &Fixture) -> Vec<[Bucket; 2]> {
    let mut buckets = Vec::new();
    for master in 0..3 {
        let key = async |limit| fixture.cluster.key_on(master, limit, 16).await;
        let keys = [key(LIMITS[0]).await, key(LIMITS[1]).await];
        buckets.push([0, 1].map(|i| fixture.bucket(LIMITS[i]).key(&keys[i])));
    }
    for bucket in buckets.iter().flatten() {
        assert!(bucket.take(1).await.unwrap().is_allowed());
    }
    buckets
}

/// A master `fails` while all buckets are taken from: the others' go on, and are topped up. It is the master of the
/// heartbeats, or the one `after` it.
async fn fail(after: usize, fails: impl FnOnce(&mut RedisServer)) {
    let mut fixture = Fixture::set(CONFIG).await;
    let victim = (fixture.cluster.home(&Namespace::default().generation()).await + after) % 3;
    let buckets = buckets(&fixture).await;
    let others: Vec<Bucket> =
        (0..3).filter(|master| *master != victim).flat_map(|master| buckets[master].clone()).collect();
    let tasks: Vec<Tasks> =
        others.iter().map(|bucket| Tasks::start([bucket.clone()], Duration::from_millis(9))).collect();
    for tasks in &tasks {
        tasks.log.allowed(20).await;
    }
    fails(&mut fixture.cluster.nodes[victim].redis.server);
    let asked = buckets[victim].clone().map(|bucket| tokio::spawn(async move { bucket.peek().await }));
    for tasks in &tasks {
        tasks.log.allowed(60).await;
    }
    for (tasks, early) in tasks.into_iter().zip([0.0, TICK].into_iter().cycle()) {
        let attempts = tasks.stop().await;
        no_errors(&attempts);
        let judgement = Oracle::new(10, 50.0).early(early).judge(&attempts).never_over();
        println!("{judgement:?}");
        // A machine that stalls costs the pure form what it missed; a daemon that waits for the victim would cost it nearly all.
        assert!(judgement.share() > 0.7, "{judgement:?}");
    }
    // Takes of the victim's buckets fail at once, or wait for their deadline.
    for asked in asked {
        if asked.is_finished() {
            let error = asked.await.unwrap().unwrap_err();
            assert!(error.is_transient(), "{error}");
        }
    }
    // Also those that only the daemon fills.
    none_left(SOON, async || {
        let mut left = Vec::new();
        for other in (0..3).filter(|master| *master != victim) {
            for pattern in ["*}:b:*", "*}:due"] {
                left.extend(fixture.cluster.nodes[other].redis.ask::<Vec<String>>(&["KEYS", pattern]).await);
            }
        }
        left
    })
    .await;
}

#[tokio::test]
async fn a_master_that_is_gone_takes_its_own_buckets_only() {
    fail(1, |server| server.kill().unwrap()).await;
}

#[tokio::test]
async fn the_master_of_the_heartbeats_that_is_gone_takes_its_own_buckets_only() {
    fail(0, |server| server.kill().unwrap()).await;
}

#[tokio::test]
async fn a_master_that_hangs_holds_no_other_up() {
    fail(1, |server| server.pause().unwrap()).await;
}

#[tokio::test]
async fn the_master_of_the_heartbeats_that_hangs_holds_no_other_up() {
    fail(0, |server| server.pause().unwrap()).await;
}

/// Has a replica take over from the master that hears the heartbeats, which `fails`.
async fn take_over(fails: impl FnOnce(&mut RedisServer)) {
    let mut fixture = Fixture::on(Cluster::with_replicas_of(3, &[0, 1, 2]).await, CONFIG).await;
    let victim = fixture.cluster.home(&Namespace::default().generation()).await;
    let buckets = buckets(&fixture).await;
    let gone = clock::now();
    fails(&mut fixture.cluster.nodes[victim].redis.server);
    for bucket in &buckets[victim] {
        let _ = eventually(SOON, async || bucket.take(1).await).await;
    }
    println!("back after {} ms", (clock::now() - gone) / 1_000);
    // The daemon, too: its heartbeat is heard there, and it fills what only it can.
    let took_over = &fixture.cluster.nodes[3 + victim].redis;
    none_left(SOON, async || took_over.ask(&["KEYS", "*}:b:*"]).await).await;
}

#[tokio::test]
async fn a_replica_takes_over_the_buckets_of_a_master_that_is_gone() {
    take_over(|server| server.kill().unwrap()).await;
}

#[tokio::test]
async fn a_replica_takes_over_the_buckets_of_a_master_that_hangs() {
    // Connections to it stay open, and whatever is asked there is never answered.
    take_over(|server| server.pause().unwrap()).await;
}

#[tokio::test]
async fn a_worker_that_knows_one_master_only_finds_its_replica() {
    let mut cluster = Cluster::with_replicas_of(3, &[0]).await;
    assert_eq!(
        cluster.home(&Namespace::default().generation()).await,
        0,
        "the node that is named has the registry"
    );
    let mut names = ('a'..='z').map(String::from);
    let name = loop {
        let name = names.next().unwrap();
        if cluster.home(&format!("topup:{{{name}:0}}:limit")).await == 0 {
            break name;
        }
    };
    let config = format!("[limit.{name}]\ncapacity = 10\nrate = \"50/s\"\n");
    let _daemon = ready(&config, &cluster.nodes[0].redis).await;
    let topup = patient(cluster.url()).await;
    assert!(topup.limit(&name).take(1).await.unwrap().is_allowed());
    cluster.nodes[0].redis.server.kill().unwrap();
    let _ = eventually(SOON, async || topup.limit(&name).take(1).await).await;
    let took_over = &cluster.nodes[3].redis;
    eventually(SOON, async || took_over.ask::<Vec<String>>(&["KEYS", "*}:b:"]).await.is_empty()).await;
}

#[tokio::test]
async fn a_breaker_is_that_of_one_master() {
    let fixture = Fixture::set(CONFIG).await;
    let topup = briefly_patient(fixture.cluster.url()).await;
    let fixture = Fixture { topup, ..fixture };
    let mut buckets = buckets(&fixture).await;
    let victim = (fixture.cluster.home(&Namespace::default().generation()).await + 1) % 3;
    fixture.cluster.nodes[victim].redis.server.pause().unwrap();
    let [hung, _] = buckets.swap_remove(victim).map(|bucket| bucket.on_outage(OnOutage::Deny));
    let stalls = Stalls::watch();
    eventually(SOON, async || {
        let decision = hung.take(1).await.unwrap();
        matches!(decision, Decision::Degraded { reason: OutageReason::CircuitOpen, .. })
    })
    .await;
    for _ in 0..20 {
        let sent = clock::now();
        assert!(hung.take(1).await.unwrap().is_degraded());
        let took = clock::now() - sent;
        assert!(took < 5_000 + stalls.worst(), "{took} µs");
        for bucket in buckets.iter().flatten() {
            let answer = bucket.take(1).await;
            assert!(stalls.worst() > 125_000 || answer.is_ok_and(|decision| !decision.is_degraded()));
        }
    }
    fixture.cluster.nodes[victim].redis.server.resume().unwrap();
    eventually(SOON, async || !hung.take(1).await.unwrap().is_degraded()).await;
}
