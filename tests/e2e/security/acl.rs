//! Users of Redis with the rights that `topupd acl` prints.

use std::time::Duration;

use redis::{Cmd, RedisResult, Value, aio::MultiplexedConnection};
use topup::{Client, Error, Terms};
use topup_tests::{Cli, Daemon, Launch, Redis, SOON, Signal, eventually, none_left};

const CONFIG: &str = r#"
[limit]
api = { capacity = 9, rate = "1/60s" }
user = { keyed = true, capacity = 100000, rate = "1000/s", shards = 4 }
lease = { capacity = 1000, rate = "100/s", lease = { max = 10, ttl = "500ms" } }
gcra = { algorithm = "gcra", keyed = true, capacity = 9, rate = "10/s", mode = "shadow" }
leaky = { algorithm = "leaky-bucket", keyed = true, capacity = 9, rate = "10/s" }
fixed = { algorithm = "fixed-window", keyed = true, limit = 9, window = "1min" }
sliding = { algorithm = "sliding-window", keyed = true, limit = 9, window = "1min" }
counter = { algorithm = "sliding-counter", keyed = true, limit = 9, window = "1min" }
permits = { algorithm = "concurrency", keyed = true, limit = 1 }
planned = { keyed = true, capacity = 9, rate = "1/h", plan.gold = { capacity = 90, rate = "1/h" } }
shared = { share = "borrow", capacity = 90, rate = "10/s", parts = { acme = 1, "*" = 9 } }

[limit.lazy]
algorithm = "lazy-token-bucket"
keyed = true
top_keys = 20
max_debt = 5
on_abandon = "refund"
capacity = 9
rate = "10/s"
"#;

/// Keys that look like patterns, like records, like keys of daemons.
const HOSTILE: [&str; 9] = [
    "}:limit",
    "{topup}:generation",
    "}:b:x",
    "topup:{user:0}:limit",
    "*",
    "[a]",
    "\\",
    "\u{1f600} \"' ",
    "}:due",
];

/// A Redis with the four users.
async fn users() -> (Redis, impl Fn(&str) -> String) {
    let redis = Redis::tcp().await;
    let told = Cli::new(&["acl"]).run().await;
    assert_eq!((told.code, told.stdout.lines().count()), (Some(0), 4), "{told:?}");
    for line in told.stdout.lines() {
        redis.ask::<()>(&line.split(' ').collect::<Vec<_>>()).await;
    }
    for role in ["worker", "daemon", "viewer", "definer"] {
        redis.ask::<()>(&["ACL", "SETUSER", &format!("topup-{role}"), ">secret"]).await;
    }
    redis.ask::<()>(&["ACL", "SETUSER", "default", "on", ">other"]).await;
    let url = redis.url().to_owned();
    (redis, move |role| url.replace("redis://", &format!("redis://topup-{role}:secret@")))
}

async fn serve(url: &str, config: &str) -> Daemon {
    let mut daemon = Launch::new(config).env("TOPUP_REDIS_URL", url).run();
    daemon.wait_for_line("ready", SOON).await;
    daemon
}

/// The commands that Redis has refused, but for the first call of a script by a worker or a viewer.
async fn refused(redis: &Redis) -> Vec<String> {
    let log: Vec<Vec<Value>> = redis.ask(&["ACL", "LOG"]).await;
    let text = |value: &Value| redis::from_redis_value_ref::<String>(value).unwrap_or_default();
    log.iter().map(|entry| entry.iter().map(text).collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
async fn a_worker_takes_in_every_way_and_does_nothing_else() {
    let (redis, url) = users().await;
    let mut daemon = serve(&url("daemon"), CONFIG).await;
    assert_eq!(refused(&redis).await, [""; 0], "the daemon needs more rights");
    let topup = Client::builder().deadline(SOON).connect(&url("worker")).await.unwrap();

    for left in (0..9).rev() {
        assert_eq!(topup.limit("api").take(1).await.unwrap().remaining(), left);
    }
    assert!(!topup.limit("api").take(1).await.unwrap().is_allowed());
    topup.limit("api").refund(1).await.unwrap();
    eventually(SOON, async || topup.limit("api").take(1).await.unwrap().is_allowed()).await;
    for limit in ["user", "lazy", "gcra", "leaky", "fixed", "sliding", "counter", "shared"] {
        for key in HOSTILE {
            let bucket = topup.limit(limit).key(key);
            for _ in 0..3 {
                assert!(bucket.take(1).await.unwrap_or_else(|e| panic!("{limit} {key}: {e}")).is_allowed());
            }
            let _ = bucket.peek().await.unwrap_or_else(|e| panic!("{limit} {key}: {e}"));
            bucket.refund(1).await.unwrap_or_else(|e| panic!("{limit} {key}: {e}"));
            bucket.reset().await.unwrap_or_else(|e| panic!("{limit} {key}: {e}"));
        }
    }
    // Holds, remembered or not, and a charge.
    for limit in ["user", "lazy", "shared"] {
        let bucket = topup.limit(limit).key("}:limit:held");
        for used in [1, 8] {
            let mut hold = bucket.reserve_cost(4).await.unwrap();
            assert_eq!(hold.settle(used).await.unwrap().charged, used);
        }
        drop(bucket.reserve_cost(1).await.unwrap());
        assert_eq!(bucket.charge(1).await.unwrap().charged, 1);
    }
    for key in HOSTILE {
        let bucket = topup.limit("permits").key(key);
        let permit = bucket.acquire(1, SOON).await.unwrap_or_else(|e| panic!("permits {key}: {e}")).unwrap();
        let _ = bucket.peek().await.unwrap_or_else(|e| panic!("permits {key}: {e}"));
        assert!(bucket.acquire(1, Duration::ZERO).await.unwrap().is_err());
        permit.release().await.unwrap_or_else(|e| panic!("permits {key}: {e}"));
    }
    // Many takes on one key, so that buckets count and bare commands take. Then leases, waits, a queue, several limits.
    for _ in 0..40 {
        let takes = (0..25).map(|_| {
            let bucket = topup.limit("user").key("shared");
            async move { bucket.take(2).await.unwrap().is_allowed() }
        });
        for take in takes {
            assert!(take.await);
        }
        assert!(topup.limit("lease").take(1).await.unwrap().is_allowed());
    }
    assert!(redis.command_calls("decrby").await > 0);
    let waits = topup.limit("lazy").key("wait");
    for _ in 0..12 {
        let _ = waits.wait(1, SOON).await.unwrap();
    }
    let _ = topup.limit("leaky").key("queue").reserve(1, Duration::from_secs(9)).await.unwrap();
    let keyed = |limit: &str| (topup.limit(limit).key("all"), 1);
    let all = ["user", "lazy", "gcra", "leaky", "fixed", "sliding", "counter"].map(keyed);
    assert!(topup.take_all(all).await.unwrap().is_allowed());
    topup.throttle("topup}:x", 3, 1, 60, 1).await.unwrap();
    // Another worker learns of a pause by its poll.
    let other = Client::builder().deadline(SOON).connect(&url("worker")).await.unwrap();
    for key in HOSTILE {
        topup.limit("lazy").key(key).pause(Duration::from_secs(60)).await.unwrap();
        let held = async || !other.limit("lazy").key(key).peek().await.unwrap().is_allowed();
        eventually(SOON, held).await;
        topup.limit("lazy").key(key).resume().await.unwrap();
    }
    while topup.limit("lazy").key("greedy").take(1).await.unwrap().is_allowed() {}
    topup.put_back().await;
    // A hand-over of the poll may be under way.
    let slices = async || redis.ask::<Vec<String>>(&["KEYS", "topup:{lazy:0}:top?"]).await.len();
    eventually(SOON, async || slices().await > 0).await;
    eventually(SOON, async || topup.counts("gcra").get(topup::Count::Allowed) > 0).await;

    // One call of each kind before the worker knows its rights.
    let log = refused(&redis).await;
    assert!(log.len() <= 4 && log.iter().all(|entry| entry.contains("topup-worker")), "{log:?}");

    let worker = redis::Client::open(url("worker")).unwrap();
    let mut worker = worker.get_multiplexed_async_connection().await.unwrap();
    let record = "topup:{user:0}:limit";
    let before: Vec<(String, Vec<u8>)> = redis.ask(&["HGETALL", record]).await;
    let own = "return redis.call('HSET', ARGV[1], 'capacity', 9)";
    for words in [
        &["HSET", record, "capacity", "9"][..],
        &["DEL", record],
        &["SET", record, "1"],
        &["RENAME", record, "topup:{user:0}:b:x"],
        &["HSET", "topup:{topup}:limits", "user", "1"],
        &["SET", "topup:{topup}:generation", "1"],
        &["ZADD", "topup:{topup}:daemons", "1", "x"],
        &["HSET", "topup:{topup}:daemon:x", "lag", "1"],
        &["EVAL", own, "0", record],
        &["GET", "other"],
        &["SET", "other:{user:0}:b:x", "1"],
        &["SET", "xtopup:{user:0}:b:x", "1"],
        &["SET", "topup:x", "1"],
        &["FLUSHALL"],
        &["FLUSHDB"],
        &["KEYS", "*"],
        &["SCAN", "0"],
        &["CONFIG", "GET", "*"],
        &["CONFIG", "SET", "requirepass", ""],
        &["ACL", "LIST"],
        &["ACL", "SETUSER", "topup-worker", "allkeys"],
        &["SCRIPT", "FLUSH"],
        &["SHUTDOWN"],
        &["MONITOR"],
        &["CLIENT", "KILL", "TYPE", "normal"],
        &["CLUSTER", "RESET"],
        &["REPLICAOF", "NO", "ONE"],
        &["PUBLISH", "x", "y"],
        &["INFO"],
    ] {
        denied(&mut worker, words).await;
    }
    // A script of its own has its rights.
    let hash: String = Cmd::new().arg(&["SCRIPT", "LOAD", own]).query_async(&mut worker).await.unwrap();
    let call: RedisResult<Value> =
        Cmd::new().arg(&["EVALSHA", &hash, "0", record]).query_async(&mut worker).await;
    assert!(call.is_err(), "{call:?}");
    assert_eq!(redis.ask::<Vec<(String, Vec<u8>)>>(&["HGETALL", record]).await, before);

    // The daemon runs everything: a change, a removal, a sweep, its end.
    redis.ask::<()>(&["ACL", "LOG", "RESET"]).await;
    let changed =
        CONFIG.replace("api = { capacity = 9, rate = \"1/60s\" }\n", "").replace("1000/s", "2000/s");
    daemon.reload(&changed);
    daemon.wait_for_line("reloaded: ", SOON).await;
    eventually(SOON, async || redis.ask::<Vec<String>>(&["KEYS", "topup:{api:*"]).await.is_empty()).await;
    let unknown = async || matches!(topup.limit("api").take(1).await, Err(Error::UnknownLimit { .. }));
    eventually(SOON, unknown).await;
    assert!(topup.limit("user").key("shared").take(1).await.unwrap().is_allowed());
    daemon.reload("");
    daemon.wait_for_line("reloaded: ", SOON).await;
    let left = async || {
        let mut left = redis.ask::<Vec<String>>(&["KEYS", "topup:{*:*}:*"]).await;
        // Marks of settled holds expire within a minute.
        left.retain(|key| !key.contains(":settled:"));
        left
    };
    none_left(SOON, left).await;
    daemon.end(Signal::TERM, SOON).await;
    assert_eq!(refused(&redis).await, [""; 0], "the daemon needs more rights");
}

async fn denied(connection: &mut MultiplexedConnection, words: &[&str]) {
    let told: RedisResult<Value> = Cmd::new().arg(words).query_async(connection).await;
    let error = told.expect_err(&format!("{words:?}"));
    assert_eq!(error.code(), Some("NOPERM"), "{words:?}: {error}");
}

#[tokio::test]
async fn a_daemon_and_a_viewer_do_nothing_else_either() {
    let (redis, url) = users().await;
    let _daemon = serve(&url("daemon"), CONFIG).await;
    redis.ask::<()>(&["SET", "other", "1"]).await;
    for role in ["daemon", "viewer"] {
        let client = redis::Client::open(url(role)).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        for words in [
            &["GET", "other"][..],
            &["SET", "topups:x", "1"],
            &["FLUSHALL"],
            &["KEYS", "*"],
            &["CONFIG", "GET", "requirepass"],
            &["ACL", "LIST"],
            &["SHUTDOWN"],
            &["EVAL", "return 1", "0"],
        ] {
            denied(&mut connection, words).await;
        }
        if role == "viewer" {
            denied(&mut connection, &["SET", "topup:{api:0}:b:", "1"]).await;
            denied(&mut connection, &["DEL", "topup:{api:0}:limit"]).await;
        }
    }
    let viewer = |words: &[&str]| Cli::new(words).env("TOPUP_REDIS_URL", url("viewer"));
    let told = viewer(&["status"]).run().await;
    assert!(told.code == Some(0) && told.stdout.contains("sliding"), "{told:?}");
    for limit in ["user", "lazy", "gcra", "leaky", "fixed", "sliding", "counter"] {
        for key in HOSTILE {
            let told = viewer(&["peek", limit, "--key", key]).run().await;
            assert_eq!(told.code, Some(0), "{limit} {key}: {told:?}");
        }
        let told = viewer(&["take", limit, "--key", "a"]).run().await;
        assert!(
            told.code == Some(2) && told.stderr.to_lowercase().contains("no permissions"),
            "{limit}: {told:?}"
        );
    }
    assert_eq!(redis.ask::<Vec<String>>(&["KEYS", "topup:{*}:?:*"]).await, [""; 0]);
    // The tokens of a key whose plan has changed are moved by those who may.
    let assign = Cli::new(&["assign", "planned", "acme", "gold"]).env("TOPUP_REDIS_URL", url("daemon"));
    assert_eq!(assign.run().await.code, Some(0));
    eventually(SOON, async || {
        let told = viewer(&["peek", "planned", "--key", "acme"]).run().await;
        assert_eq!(told.code, Some(0), "{told:?}");
        told.stdout.contains("90 of 90 left, plan gold")
    })
    .await;
    for words in [&["pause", "api", "--for", "1h"][..], &["resume", "api"]] {
        let told = viewer(words).run().await;
        assert!(told.code == Some(2) && told.stderr.to_lowercase().contains("no permissions"), "{told:?}");
    }
    assert_eq!(redis.ask::<u64>(&["EXISTS", "topup:{topup}:pauses"]).await, 0);
}

/// Defining a limit is a right of its own.
#[tokio::test]
async fn a_definer_defines_limits_and_a_worker_obeys_them() {
    let (redis, url) = users().await;
    let daemon = serve(&url("daemon"), CONFIG).await;
    let connect = async |role| Client::builder().deadline(SOON).connect(&url(role)).await.unwrap();
    let (definer, worker) = (connect("definer").await, connect("worker").await);
    let terms = |capacity| Terms::token_bucket(capacity, "1/h").keyed();
    let before = refused(&redis).await;
    definer.define("tenant", terms(5)).await.unwrap();
    assert_eq!(worker.limit("tenant").key("a").take(1).await.unwrap().remaining(), 4);
    for denied in [
        worker.define("tenant", terms(50)).await.map(drop),
        worker.define("other", terms(50)).await.map(drop),
        worker.undefine("tenant").await.map(drop),
    ] {
        assert!(matches!(denied, Err(Error::MayNotDefine)), "{denied:?}");
    }
    definer.define("tenant", terms(9)).await.unwrap();
    let told = async || worker.limit("tenant").key("a").peek().await.unwrap();
    eventually(SOON, async || told().await.capacity() == 9).await;
    assert_eq!(told().await.remaining(), 4);
    definer.define("tenant", Terms::sliding_window(["2/h"]).keyed()).await.unwrap();
    assert!(definer.limit("tenant").key("a").take(1).await.unwrap().is_allowed());
    assert!(definer.undefine("tenant").await.unwrap());
    let refused: Vec<String> = refused(&redis).await.into_iter().skip(before.len()).collect();
    assert!(!refused.iter().any(|entry| entry.contains("definer")), "{refused:?}");
    drop(daemon);
}

/// A plan only reads.
#[tokio::test]
async fn a_viewer_may_plan() {
    let (redis, url) = users().await;
    let _daemon = serve(&url("daemon"), CONFIG).await;
    let (same, other) = (CONFIG.to_owned(), CONFIG.replace("capacity = 9", "capacity = 8"));
    for (config, code) in [(same, 0), (other, 6)] {
        let told = Cli::new(&["plan"]).env("TOPUP_REDIS_URL", url("viewer")).config(&config).run().await;
        assert_eq!(told.code, Some(code), "{told:?}");
    }
    // The first call of a script is one by its hash.
    let log = refused(&redis).await;
    assert!(log.iter().all(|entry| entry.contains("cmd=evalsha")), "{log:?}");
}
