//! A Redis that is there and refuses: said clearly, not too often, and tried again.

use topup_tests::{Daemon, Incident, Launch, Redis, SOON, eventually};

use super::{bucket::Bucket, ready};

const LIMITS: &str = "[daemon]\ntick = \"10ms\"\n[limit.api]\ncapacity = 100\nrate = \"1000/s\"\n\
                      [limit.user]\nkeyed = true\ncapacity = 10\nrate = \"1/s\"\n";

fn said(daemon: &Daemon, text: &str) -> usize {
    daemon.lines().iter().filter(|line| line.contains(text)).count()
}

/// Drained, it is full again: the daemon is at work.
async fn refills(redis: &Redis) {
    let bucket = Bucket::of(redis, "api");
    bucket.drain().await;
    eventually(SOON, async || bucket.stored().await.is_none()).await;
}

/// Most lines that a refused daemon logs in a test.
const FEW: usize = 10;
/// Attempts after which it would have logged many more.
const MANY: u64 = 4 * FEW as u64;

#[tokio::test]
async fn a_wrong_password_is_said_and_tried_again() {
    let redis = Redis::tcp().await;
    redis.ask::<()>(&["CONFIG", "SET", "requirepass", "right"]).await;
    let url = redis.url().replace("redis://", "redis://:not-the-right-one@");
    let mut daemon = Launch::new(LIMITS).env("TOPUP_REDIS_URL", url).run();
    let line = daemon.wait_for_line("serves 2 limits", SOON).await;
    assert!(line.contains("on redis://***@127.0.0.1:"), "{line}");
    let line = daemon.wait_for_line("Redis refuses", SOON).await;
    assert!(line.contains("the password in redis.url, TOPUP_REDIS_URL or"), "{line}");
    redis.ask::<()>(&["CONFIG", "SET", "requirepass", "not-the-right-one"]).await;
    daemon.wait_for_line("ready", SOON).await;
    assert_eq!(said(&daemon, "not-the-right-one"), 0, "{:?}", daemon.lines());
    refills(&redis).await;
}

#[tokio::test]
async fn a_missing_password_is_said_and_tried_again() {
    let redis = Redis::start().await;
    redis.ask::<()>(&["CONFIG", "SET", "requirepass", "some"]).await;
    let mut daemon = Daemon::spawn(LIMITS, &redis);
    daemon.wait_for_line("the password in redis.url, TOPUP_REDIS_URL or", SOON).await;
    redis.ask::<()>(&["CONFIG", "SET", "requirepass", ""]).await;
    daemon.wait_for_line("ready", SOON).await;
}

#[tokio::test]
async fn a_password_set_while_it_runs_is_said() {
    let redis = Redis::tcp().await;
    let mut daemon = ready(LIMITS, &redis).await;
    redis.ask::<()>(&["CONFIG", "SET", "requirepass", "some"]).await;
    // Connections from before stay signed in.
    redis.ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    daemon.wait_for_line("Redis refuses the password", SOON).await;
    redis.ask::<()>(&["CONFIG", "SET", "requirepass", ""]).await;
    daemon.wait_for_line("Redis is back", SOON).await;
}

#[tokio::test]
async fn a_redis_made_a_replica_is_said_and_tried_again() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMITS, &redis).await;
    Incident::Replica.begin(&redis).await;
    let line = daemon.wait_for_line("read only replica", SOON).await;
    assert!(line.contains("WARN"), "{line}");
    Incident::Replica.end(&redis).await;
    daemon.wait_for_line("Redis is back", SOON).await;
    refills(&redis).await;
    assert!(said(&daemon, "read only replica") <= FEW, "{:?}", daemon.lines());
}

#[tokio::test]
async fn a_redis_without_memory_is_said_and_tried_again() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMITS, &redis).await;
    let bucket = Bucket::keyed(&redis, "user", "alice", 8);
    bucket.drain().await;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let line = daemon.wait_for_line("OOM", SOON).await;
    assert!(line.contains("WARN"), "{line}");
    attempts(&redis, MANY).await;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    eventually(SOON, async || bucket.stored().await.is_some_and(|stored| stored.tokens > 0)).await;
    refills(&redis).await;
    assert!(said(&daemon, "OOM") <= FEW, "{:?}", daemon.lines());
}

#[tokio::test]
async fn a_redis_that_evicts_keys_is_warned_of() {
    let redis = Redis::start().await;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let mut daemon = Daemon::spawn(LIMITS, &redis);
    daemon.wait_for_line("may evict keys (maxmemory-policy allkeys-lru)", SOON).await;
}

/// A user that may not write limits: the heartbeat comes through, publishing does not.
#[tokio::test]
async fn a_right_that_is_missing_for_publishing_floods_no_log() {
    let redis = Redis::start().await;
    redis.ask::<()>(&["ACL", "SETUSER", "default", "resetkeys", "~topup:{topup}:*"]).await;
    let mut daemon = Daemon::spawn(LIMITS, &redis);
    daemon.wait_for_line("NoPerm", SOON).await;
    attempts(&redis, MANY).await;
    assert!(said(&daemon, "NoPerm") <= FEW, "{:?}", daemon.lines());
    redis.ask::<()>(&["ACL", "SETUSER", "default", "allkeys"]).await;
    daemon.wait_for_line("ready", SOON).await;
    refills(&redis).await;
}

/// The same once it has published: every shard fails at every look.
#[tokio::test]
async fn a_right_that_is_missing_for_refilling_floods_no_log() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMITS, &redis).await;
    for key in 0..20 {
        Bucket::keyed(&redis, "user", &key.to_string(), 8).drain().await;
    }
    redis.ask::<()>(&["ACL", "SETUSER", "default", "resetkeys", "~topup:{topup}:*"]).await;
    daemon.wait_for_line("NoPerm", SOON).await;
    attempts(&redis, MANY).await;
    assert!(said(&daemon, "NoPerm") <= FEW, "{:?}", daemon.lines());
    redis.ask::<()>(&["ACL", "SETUSER", "default", "allkeys"]).await;
    refills(&redis).await;
}

/// A refused refill is no reason to send heartbeats as a user who may not write: to workers, the daemon is alive.
#[tokio::test]
async fn a_right_that_is_missing_for_one_shard_ends_no_heartbeat() {
    let redis = Redis::start().await;
    let mut daemon =
        ready("[limit.api]\ncapacity = 10_000\nrate = \"100/s\"\ncatch_up = false\n", &redis).await;
    let bucket = Bucket::of(&redis, "api");
    bucket.drain().await;
    let tokens = async || bucket.stored().await.expect("far from full").tokens;
    // From now on, the daemon refills the shard without a question before.
    eventually(SOON, async || tokens().await > 0).await;
    redis.ask::<()>(&["ACL", "SETUSER", "default", "resetkeys", "~topup:{topup}:*"]).await;
    daemon.wait_for_line("NoPerm", SOON).await;
    beats(&redis).await;
    redis.ask::<()>(&["ACL", "SETUSER", "default", "allkeys"]).await;
    let before = tokens().await;
    eventually(SOON, async || tokens().await > before).await;
    beats(&redis).await;
}

/// As a newer daemon, or a hand, may leave it.
#[tokio::test]
async fn a_record_that_cannot_be_read_stops_no_other_limit() {
    let redis = Redis::start().await;
    let daemon = ready(LIMITS, &redis).await;
    redis.ask::<u64>(&["HSET", "topup:{user:0}:limit", "algorithm", "leaky-bucket"]).await;
    redis.ask::<u64>(&["INCR", "topup:{topup}:generation"]).await;
    super::looked(&redis, 3).await;
    refills(&redis).await;
    assert_eq!(said(&daemon, "Redis is away"), 0, "{:?}", daemon.lines());
}

/// A record that was written by hand is published over.
#[tokio::test]
async fn a_record_that_cannot_be_read_is_published_anew() {
    let redis = Redis::start().await;
    redis.ask::<u64>(&["HSET", "topup:{topup}:limits", "api", "1"]).await;
    redis.ask::<u64>(&["HSET", "topup:{api:0}:limit", "algorithm", "leaky-bucket"]).await;
    let _daemon = ready(LIMITS, &redis).await;
    refills(&redis).await;
}

/// Waits for the next heartbeat.
async fn beats(redis: &Redis) {
    let daemons = async || {
        redis.ask::<Vec<String>>(&["ZRANGE", "topup:{topup}:daemons", "0", "-1", "WITHSCORES"]).await
    };
    let before = daemons().await;
    eventually(SOON, async || {
        let now = daemons().await;
        !now.is_empty() && now != before
    })
    .await;
}

/// Waits until the daemon has called so many more scripts.
async fn attempts(redis: &Redis, times: u64) {
    let before = redis.command_calls("evalsha").await;
    eventually(SOON, async || redis.command_calls("evalsha").await - before >= times).await;
}
