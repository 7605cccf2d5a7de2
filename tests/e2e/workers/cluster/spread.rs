//! Buckets on all nodes: taken from, topped up, and gone when they are full.

use std::{collections::BTreeMap, time::Duration};

use tokio::task::JoinSet;
use topup_tests::{Cli, SOON, Signal, eventually, none_left};
use topup_wire::{
    keyspace::{ShardKeys, shard_of},
    limit::Shards,
    namespace::Namespace,
};

use super::{
    super::{
        fixture::{Tasks, patient},
        oracle::{Oracle, no_errors},
    },
    Fixture,
};

const CONFIG: &str = r#"
[limit]
user = { keyed = true, shards = 16, capacity = 10, rate = "50/s" }
login = { keyed = true, algorithm = "lazy-token-bucket", capacity = 3, rate = "1/60s" }
many = { keyed = true, algorithm = "lazy-token-bucket", capacity = 1_000, rate = "1/60s" }
all = { capacity = 100, rate = "1/60s" }
"#;

fn users() -> impl Iterator<Item = String> {
    (0..24).map(|i| format!("user-{i}"))
}

/// The master of each user's bucket.
async fn homes(fixture: &Fixture) -> BTreeMap<String, usize> {
    let mut homes = BTreeMap::new();
    for user in users() {
        let shard = shard_of(&user, Shards::new(16).unwrap());
        let keys = ShardKeys::new(Namespace::default(), &"user".parse().unwrap(), shard);
        homes.insert(user, fixture.cluster.home(&keys.record).await);
    }
    homes
}

#[tokio::test]
async fn two_workers_take_from_buckets_on_all_nodes_and_no_bucket_is_over() {
    let fixture = Fixture::set(CONFIG).await;
    let homes = homes(&fixture).await;
    for master in 0..3 {
        assert!(homes.values().filter(|home| **home == master).count() > 1, "{homes:?}");
    }
    let other = patient(fixture.cluster.masters()[2].redis.url()).await;
    let mut judged = JoinSet::new();
    for user in users() {
        let buckets = [&fixture.topup, &other].map(|topup| topup.limit("user").key(&user));
        judged.spawn(async move {
            let tasks = Tasks::start(buckets, Duration::from_millis(16));
            tasks.log.allowed(100).await;
            let attempts = tasks.stop().await;
            no_errors(&attempts);
            (user, Oracle::new(10, 50.0).judge(&attempts).never_over().within(0.05))
        });
    }
    let (mut allowed, mut all) = ([0; 3], 0);
    for (user, judgement) in judged.join_all().await {
        allowed[homes[&user]] += judgement.allowed;
        all += judgement.allowed;
    }
    println!("{all} allowed, by node {allowed:?}");
    none_left(SOON, async || fixture.bucket_keys().await).await;
}

#[tokio::test]
async fn no_node_has_to_say_where_to_ask() {
    let fixture = Fixture::set(CONFIG).await;
    for _ in 0..2 {
        for user in users() {
            assert!(fixture.bucket("user").key(user).take(1).await.unwrap().is_allowed());
        }
    }
    for node in fixture.cluster.masters() {
        node.redis.reset_stats().await;
    }
    for _ in 0..3 {
        for user in users() {
            assert!(fixture.bucket("user").key(user).take(1).await.unwrap().is_allowed());
        }
    }
    let (mut bare, mut moved) = (0, 0);
    for node in fixture.cluster.masters() {
        bare += node.redis.command_calls("decr").await;
        let errors: String = node.redis.ask(&["INFO", "errorstats"]).await;
        moved += errors.lines().filter(|line| line.starts_with("errorstat_MOVED")).count();
    }
    println!("{bare} bare commands for 72 takes");
    assert_eq!(moved, 0, "nodes that have not got the key");
}

#[tokio::test]
async fn across_slots_all_is_taken_or_nothing() {
    let fixture = Fixture::set(CONFIG).await;
    let takes = |user: &str| {
        let login = fixture.bucket("login").key(user);
        [(fixture.bucket("all"), 1), (fixture.bucket("user").key(user), 2), (login, 1)]
    };
    for user in ["a", "b", "c", "d"] {
        for _ in 0..3 {
            assert!(fixture.topup.take_all(takes(user)).await.unwrap().is_allowed());
        }
        let denied = fixture.topup.take_all(takes(user)).await.unwrap();
        assert_eq!(denied.denied_by().unwrap().limit(), "login");
        assert_eq!(fixture.bucket("login").key(user).peek().await.unwrap().remaining(), 0);
    }
    assert_eq!(fixture.bucket("all").peek().await.unwrap().remaining(), 100 - 12);
    eventually(SOON, async || fixture.bucket("user").key("a").peek().await.unwrap().remaining() == 10).await;
}

#[tokio::test]
async fn in_one_slot_it_is_one_script() {
    const TAKES: u64 = 200;
    let mut fixture = Fixture::set(CONFIG).await;
    let of = |user: &str| shard_of(user, Shards::new(8).unwrap());
    let first = users().next().unwrap();
    let other = users().skip(1).find(|user| of(user) == of(&first)).unwrap();
    let [one, other] = [first, other].map(|user| fixture.bucket("many").key(user));
    // It has been learned that others are not in one.
    let apart = [(one.clone(), 1), (fixture.bucket("all"), 1)];
    assert!(fixture.topup.take_all(apart).await.unwrap().is_allowed());
    let scripts = async || {
        let mut scripts = 0;
        for node in fixture.cluster.masters() {
            scripts += node.redis.command_calls("evalsha").await;
        }
        scripts
    };
    assert!(other.take(1).await.unwrap().is_allowed());
    // Its scripts are as many as time allows.
    fixture.daemon.end(Signal::KILL, SOON).await;
    let before = scripts().await;
    for _ in 0..TAKES {
        assert!(fixture.topup.take_all([(one.clone(), 1), (other.clone(), 1)]).await.unwrap().is_allowed());
    }
    // Besides ours, the client looks for changes now and then.
    let sent = scripts().await - before;
    assert!((TAKES..TAKES * 3 / 2).contains(&sent), "{sent} scripts");
    let left = [one.peek().await.unwrap().remaining(), other.peek().await.unwrap().remaining()];
    assert_eq!(left, [1_000 - 1 - TAKES; 2]);
}

#[tokio::test]
async fn the_command_line_finds_every_bucket() {
    let fixture = Fixture::set(CONFIG).await;
    for user in users() {
        let told = Cli::new(&["take", "user", "--key", &user, "--count", "10"])
            .redis(&fixture.cluster.masters()[2].redis);
        let ended = told.run().await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let ended = Cli::new(&["take", "all"]).redis(&fixture.cluster.masters()[2].redis).run().await;
    assert_eq!((ended.code, ended.stdout.trim_end()), (Some(0), "allowed, 99 of 100 left"));
    let ended = Cli::new(&["status"]).redis(&fixture.cluster.masters()[0].redis).run().await;
    assert!(ended.stdout.contains("1 daemon alive") && ended.stdout.contains("user"), "{}", ended.stdout);
    for user in ["a", "b", "c", "d", "e"] {
        let ended = Cli::new(&["throttle", user, "4", "1", "60"])
            .redis(&fixture.cluster.masters()[1].redis)
            .run()
            .await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "0\n5\n4\n-1\n60\n"), "{}", ended.stderr);
    }
}
