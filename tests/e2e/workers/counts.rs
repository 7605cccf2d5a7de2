//! Counts of takes: exact, whatever the life of a worker, and never more than there were.

use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Builder;
use topup::{Client, Count, Decision};
use topup_tests::{Cli, Proxy, Redis, SOON, clock::now, eventually};

use super::fixture::{Fixture, patient};

/// The counts of a limit as Redis has them.
async fn counts(redis: &Redis, limit: &str) -> Value {
    let ended = Cli::new(&["status", "--json"]).redis(redis).run().await;
    let status: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = status["limits"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == limit).unwrap()["counts"].clone()
}

/// The longest time that the end of a client waits for Redis.
const LONGEST_END: Duration = Duration::from_secs(2);

/// A worker process in small: takes for a moment, and ends. Returns the numbers of allowed and denied takes, and whether
/// the machine let the client hand them over in time.
fn short_life(url: &str, threads: bool, puts_back: bool) -> ([u64; 2], bool) {
    let mut runtime = if threads { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let topup = patient(url).await;
        let mut decided = [0; 2];
        for take in 0..40 {
            let bucket = if take % 4 == 0 { topup.limit("user").key("alice") } else { topup.limit("api") };
            decided[usize::from(!bucket.take(1).await.unwrap().is_allowed())] += 1;
        }
        if puts_back {
            topup.put_back().await;
        }
        let began = now();
        drop(topup);
        (decided, Duration::from_micros(now() - began) < LONGEST_END)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_are_exact_of_workers_that_live_for_a_moment_and_of_the_command_line() {
    let config = "[limit.api]\ncapacity = 300\nrate = \"1/h\"\nlease = { max = 10 }\n\
                  [limit.user]\nkeyed = true\ncapacity = 5\nrate = \"1/h\"\n";
    let fixture = Fixture::set(config).await;
    let workers = (0..16).map(|i| {
        let url = fixture.redis.url().to_owned();
        tokio::task::spawn_blocking(move || short_life(&url, i % 2 == 0, i % 4 < 2))
    });
    let (mut decided, mut late) = ([0; 2], [0; 2]);
    for worker in workers.collect::<Vec<_>>() {
        let (of_worker, in_time) = worker.await.unwrap();
        for (i, takes) in of_worker.into_iter().enumerate() {
            decided[i] += takes;
            late[i] += if in_time { 0 } else { takes };
        }
    }
    for _ in 0..3 {
        let ended = Cli::new(&["take", "user", "--key", "alice"]).redis(&fixture.redis).run().await;
        assert_eq!(ended.code, Some(1));
    }
    // At once: the end of each worker has waited for it.
    let (api, user) = (counts(&fixture.redis, "api").await, counts(&fixture.redis, "user").await);
    let sum = |name: &str| api[name].as_u64().unwrap() + user[name].as_u64().unwrap();
    for (name, takes, late) in [("allowed", decided[0], late[0]), ("denied", decided[1] + 3, late[1])] {
        assert!((takes - late..=takes).contains(&sum(name)), "{name}: {} of {takes}, {late} late", sum(name));
    }
    assert_eq!(decided.iter().sum::<u64>(), 16 * 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fault_of_the_network_makes_them_more() {
    let fixture = Fixture::set("[limit.api]\ncapacity = 100000\nrate = \"1/h\"\n").await;
    let proxy = Proxy::before(&fixture.redis).await;
    let builder = Client::builder().deadline(Duration::from_millis(500));
    let topup = builder.connect_lazy(proxy.url()).unwrap();
    let bucket = topup.limit("api");
    let allowed = async || counts(&fixture.redis, "api").await["allowed"].as_u64().unwrap();
    for fault in 0..6 {
        match fault % 3 {
            0 => proxy.tear(7),
            1 => proxy.lose_answers(),
            _ => proxy.cut(),
        }
        for _ in 0..20 {
            let _ = bucket.take(1).await;
        }
        // Connections that have lost answers end.
        proxy.cut();
        proxy.pass();
        eventually(SOON, async || bucket.take(1).await.is_ok_and(|decision| decision.is_allowed())).await;
        topup.put_back().await;
        let (handed_over, counted) = (allowed().await, topup.counts("api").get(Count::Allowed));
        assert!(handed_over <= counted, "{handed_over} in Redis, {counted} takes");
    }
    // Nothing is lost of what comes after the last fault, and all that failed was undecided.
    let before = allowed().await;
    for _ in 0..10 {
        eventually(SOON, async || bucket.take(1).await.is_ok_and(|decision| decision.is_allowed())).await;
    }
    eventually(SOON, async || {
        topup.put_back().await;
        allowed().await >= before + 10
    })
    .await;
    assert!(topup.counts("api").get(Count::Undecided) > 0);
}

#[tokio::test]
async fn without_takes_nothing_is_written() {
    let fixture = Fixture::set("[limit.api]\ncapacity = 3\nrate = \"1/h\"\n").await;
    for _ in 0..4 {
        let _: Decision = fixture.bucket("api").take(1).await.unwrap();
    }
    eventually(SOON, async || counts(&fixture.redis, "api").await["denied"] == 1).await;
    let written = async || fixture.redis.command_calls("hincrby").await;
    let (before, polls) = (written().await, fixture.redis.command_calls("zcount").await);
    // Twelve polls of the worker, and so three hand-overs.
    eventually(SOON, async || fixture.redis.command_calls("zcount").await >= polls + 12).await;
    assert_eq!(written().await, before);
}

#[tokio::test]
async fn a_cluster_has_the_counts_of_each_limit_where_its_buckets_are() {
    let cluster = topup_tests::Cluster::start(2).await;
    let limits: String = (0..8).map(|i| format!("[limit.api{i}]\ncapacity = 3\nrate = \"1/h\"\n")).collect();
    let mut daemon = topup_tests::Launch::new(&limits).env("TOPUP_REDIS_URL", cluster.url()).run();
    daemon.wait_for_line("ready", SOON).await;
    let topup = patient(cluster.url()).await;
    for limit in 0..8 {
        for _ in 0..4 {
            let _: Decision = topup.limit(format!("api{limit}")).take(1).await.unwrap();
        }
    }
    topup.put_back().await;
    let ended = Cli::new(&["status", "--json"]).env("TOPUP_REDIS_URL", cluster.url()).run().await;
    let status: Value = serde_json::from_str(&ended.stdout).unwrap();
    for row in status["limits"].as_array().unwrap() {
        assert_eq!((&row["counts"]["allowed"], &row["counts"]["denied"]), (&3.into(), &1.into()), "{row}");
    }
}
