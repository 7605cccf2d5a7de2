//! Hash slots that move from node to node while their buckets are taken from.

use std::time::Duration;

use topup_tests::{Attempt, SOON, eventually};
use topup_wire::{
    keyspace::{ShardKeys, shard_of},
    limit::Shards,
    namespace::Namespace,
};

use super::{
    super::{
        fixture::Tasks,
        oracle::{Oracle, no_errors},
    },
    Fixture,
};

/// Buckets in which no token comes meanwhile, so that every one is accounted for; and one in which many do.
const CONFIG: &str = r#"
[limit]
stock = { capacity = 100_000, rate = "1/366d" }
lazy = { algorithm = "lazy-token-bucket", capacity = 100_000, rate = "1/366d" }
user = { keyed = true, shards = 16, capacity = 10, rate = "1/366d" }
busy = { capacity = 10, rate = "200/s" }
"#;

const LIMITS: [&str; 3] = ["stock", "lazy", "busy"];

/// Commands that the nodes have refused because a hash slot is on its way.
async fn refusals(fixture: &Fixture) -> u64 {
    let mut refusals = 0;
    for node in fixture.cluster.masters() {
        // errorstat_ASK:count=3
        let errors: String = node.redis.ask(&["INFO", "errorstats"]).await;
        let counts = errors.lines().filter_map(|line| {
            let line = line.strip_prefix("errorstat_")?;
            line.strip_prefix("ASK:count=").or(line.strip_prefix("TRYAGAIN:count="))
        });
        refusals += counts.map(|count| count.trim().parse::<u64>().unwrap()).sum::<u64>();
    }
    refusals
}

#[tokio::test]
async fn a_slot_moves_under_way_and_each_token_is_taken_once() {
    let fixture = Fixture::set(CONFIG).await;
    for limit in LIMITS {
        assert!(fixture.bucket(limit).take(1).await.unwrap().is_allowed());
    }
    let tasks =
        LIMITS.map(|limit| Tasks::start((0..8).map(|_| fixture.bucket(limit)), Duration::from_millis(4)));
    for turn in 0..6 {
        for limit in LIMITS {
            let record = format!("topup:{{{limit}:0}}:limit");
            let (hash_slot, home) =
                (fixture.cluster.hash_slot(&record).await, fixture.cluster.home(&record).await);
            let [from, to] = [(home + turn) % 3, (home + turn + 1) % 3];
            let before = refusals(&fixture).await;
            fixture.cluster.begin_to_move(hash_slot, from, to).await;
            // The counter goes ahead of the rest: bare commands follow it, scripts wait for the others.
            let counter = format!("topup:{{{limit}:0}}:{}:", if limit == "lazy" { "l" } else { "b" });
            fixture.cluster.move_keys(&[counter], from, to).await;
            eventually(SOON, async || refusals(&fixture).await > before).await;
            fixture.cluster.end_the_move(hash_slot, from, to).await;
        }
    }
    let [stock, lazy, busy] = tasks;
    for (limit, tasks) in [("stock", stock), ("lazy", lazy)] {
        let attempts = tasks.stop().await;
        no_errors(&attempts);
        let taken = attempts.iter().filter(|attempt| attempt.is_allowed()).count() as u64;
        let left = fixture.bucket(limit).peek().await.unwrap().remaining();
        println!("{limit}: {taken} taken of {} asked for", attempts.len());
        assert!(taken > 100 && taken + left + 1 == 100_000, "{limit}: {taken} taken, {left} left");
    }
    let attempts = busy.stop().await;
    no_errors(&attempts);
    let judgement = Oracle::new(10, 200.0).judge(&attempts).never_over();
    println!("busy: {judgement:?}, {} answers", attempts.len());
    assert!(judgement.share() > 0.5, "{judgement:?}");
    eventually(SOON, async || fixture.cluster.keys("*{busy:0}:b:").await.is_empty()).await;
}

#[tokio::test]
async fn a_hash_slot_that_is_long_on_its_way_is_an_error_that_passes() {
    let fixture = Fixture::set(CONFIG).await;
    assert!(fixture.bucket("lazy").take(1).await.unwrap().is_allowed());
    let record = "topup:{lazy:0}:limit";
    let (hash_slot, from) = (fixture.cluster.hash_slot(record).await, fixture.cluster.home(record).await);
    let to = (from + 1) % 3;
    fixture.cluster.begin_to_move(hash_slot, from, to).await;
    fixture.cluster.move_keys(&["topup:{lazy:0}:l:".to_owned()], from, to).await;
    let error = fixture.bucket("lazy").take(1).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("during rehashing of slot"), "{error}");
    fixture.cluster.end_the_move(hash_slot, from, to).await;
    assert_eq!(fixture.bucket("lazy").take(1).await.unwrap().remaining(), 99_998);
    assert!(Attempt::make(&fixture.bucket("lazy")).await.is_allowed());
}

#[tokio::test]
async fn a_master_that_gives_all_its_slots_away_is_left_without_an_error() {
    let fixture = Fixture::set(CONFIG).await;
    let home = fixture.cluster.home("topup:{stock:0}:limit").await;
    assert!(fixture.bucket("stock").take(1).await.unwrap().is_allowed());
    let mut there = Vec::new();
    for user in (0..48).map(|i| format!("user-{i}")) {
        let keys = ShardKeys::new(
            Namespace::default(),
            &"user".parse().unwrap(),
            shard_of(&user, Shards::new(16).unwrap()),
        );
        if fixture.cluster.home(&keys.record).await == home {
            there.push(fixture.bucket("user").key(user));
        }
    }
    let tasks = Tasks::start((0..4).map(|_| fixture.bucket("stock")), Duration::from_millis(4));
    let old = &fixture.cluster.masters()[home].redis;
    let clients = async || old.ask::<String>(&["CLIENT", "LIST", "TYPE", "normal"]).await.lines().count();
    // On a busy machine, the worker and the daemon may have left when the last hash slot has moved.
    let before = clients().await;
    fixture.cluster.move_all(home, (home + 1) % 3).await;
    // The first of these takes finds out that the master has no hash slot any more. The worker then leaves it.
    for bucket in there {
        assert!(bucket.take(1).await.unwrap().is_allowed());
    }
    eventually(SOON, async || clients().await < before).await;
    tasks.log.allowed(100).await;
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    let taken = attempts.iter().filter(|attempt| attempt.is_allowed()).count() as u64;
    let left = fixture.bucket("stock").peek().await.unwrap().remaining();
    assert!(taken > 100 && taken + left + 1 == 100_000, "{taken} taken, {left} left");
}
