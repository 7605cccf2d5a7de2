//! A Redis that comes late, dies, hangs, or forgets.

use topup_tests::{Daemon, Launch, NotifySocket, Redis, SOON, eventually};
use topup_wire::reply::Verdict;

use super::{bucket::Bucket, complaints, is_late_by_seconds, left_alone, looked, now, ready};

/// A token every 10 ms, credited at each tick, and room for ten minutes of them: more than a test takes.
const LIMIT: &str =
    "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 64_000\nrate = \"100/s\"\ncatch_up = false\n";
const TOKEN: u64 = 10_000;

fn said(daemon: &Daemon, text: &str) -> usize {
    daemon.lines().iter().filter(|line| line.contains(text)).count()
}

/// Once: what a drained bucket holds is exactly what its time since then is worth.
async fn credited_once_since(drained: u64, bucket: &Bucket, until: u64) {
    let stored = eventually(SOON, async || {
        let stored = bucket.stored().await.unwrap();
        if stored.score + TOKEN > until { Ok(stored) } else { Err(stored) }
    })
    .await;
    assert_eq!(stored.tokens.cast_unsigned(), (stored.score - drained) / TOKEN);
}

#[tokio::test]
async fn it_waits_for_a_redis_that_comes_late_and_says_so_once() {
    let (mut redis, mut systemd) = (Redis::tcp().await, NotifySocket::bind());
    redis.server.kill().unwrap();
    let mut daemon = Launch::new(LIMIT).redis(&redis).notify(&systemd).run();
    daemon.wait_for_line("Redis is away", SOON).await;
    // Both signs of life come after several attempts.
    for _ in 0..2 {
        systemd.wait_for("WATCHDOG=1", SOON).await;
    }
    assert_eq!(said(&daemon, "Redis is away"), 1);
    assert!(!systemd.seen().iter().any(|message| message.contains("READY=1")), "{:?}", systemd.seen());
    redis.restart().await;
    daemon.wait_for_line("Redis is back", SOON).await;
    daemon.wait_for_line("ready", SOON).await;
    systemd.wait_for("READY=1", SOON).await;
    assert_eq!(Bucket::of(&redis, "api").take(1).await.verdict, Verdict::Allowed);
}

#[tokio::test]
async fn a_redis_that_comes_back_empty_gets_everything_again() {
    let (mut redis, mut daemon) = left_alone(LIMIT).await;
    redis.restart().await;
    daemon.wait_for_line("Redis is back", SOON).await;
    daemon.wait_for_line("publishing again", SOON).await;
    let bucket = Bucket::of(&redis, "api");
    eventually(SOON, async || bucket.peek().await.verdict == Verdict::Allowed).await;
    let drained = bucket.drain().await.now;
    credited_once_since(drained, &bucket, now(&redis).await).await;
}

#[tokio::test]
async fn a_redis_that_hung_finds_no_token_doubled() {
    let (redis, mut systemd) = (Redis::start().await, NotifySocket::bind());
    let mut daemon = Launch::new(LIMIT).redis(&redis).notify(&systemd).run();
    daemon.wait_for_line("ready", SOON).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    looked(&redis, 3).await;
    redis.server.pause().unwrap();
    daemon.wait_for_line("Redis is away", SOON).await;
    systemd.wait_for("STATUS=Redis is away", SOON).await;
    // Both signs of life come after several attempts.
    for _ in 0..2 {
        systemd.wait_for("WATCHDOG=1", SOON).await;
    }
    redis.server.resume().unwrap();
    daemon.wait_for_line("Redis is back", SOON).await;
    let back = now(&redis).await;
    credited_once_since(drained, &bucket, back).await;
    looked(&redis, 5).await;
    credited_once_since(drained, &bucket, now(&redis).await).await;
    assert_eq!(said(&daemon, "Redis is away"), 1, "{:?}", daemon.lines());
    let lines = daemon.lines();
    assert!(!lines.iter().any(|line| is_late_by_seconds(line)), "an outage is no overload: {lines:?}");
}

#[tokio::test]
async fn a_flushed_redis_gets_everything_again() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMIT, &redis).await;
    let bucket = Bucket::of(&redis, "api");
    bucket.drain().await;
    redis.ask::<()>(&["FLUSHALL"]).await;
    daemon.wait_for_line("nothing is published any more", SOON).await;
    let full = eventually(SOON, async || {
        let seen = bucket.peek().await;
        if seen.verdict == Verdict::Allowed { Ok(seen) } else { Err(seen) }
    });
    assert_eq!(full.await.tokens, 64_000);
    let drained = bucket.drain().await.now;
    credited_once_since(drained, &bucket, now(&redis).await).await;
}

/// As after a fail-over to a copy that was behind, or a restart from a snapshot.
#[tokio::test]
async fn a_redis_that_comes_back_older_is_brought_up_to_date() {
    let mut redis = Redis::tcp().await;
    let mut daemon = ready(LIMIT, &redis).await;
    redis.ask::<()>(&["SAVE"]).await;
    super::reload(&mut daemon, &LIMIT.replace("100/s", "7/s")).await;
    let rate =
        async |redis: &Redis| redis.ask::<Option<String>>(&["HGET", "topup:{api:0}:limit", "rate"]).await;
    eventually(SOON, async || rate(&redis).await.as_deref() == Some("7/s")).await;
    looked(&redis, 3).await;
    redis.server.kill().unwrap();
    redis.restart().await;
    assert_eq!(rate(&redis).await.as_deref(), Some("100/s"), "the snapshot is older");
    eventually(SOON, async || rate(&redis).await.as_deref() == Some("7/s")).await;
}

/// A daemon to which a command does something three times, and which credits each token once all the same.
async fn carries_on(redis: &Redis, disturbance: &[&str]) -> Daemon {
    let daemon = ready(LIMIT, redis).await;
    let bucket = Bucket::of(redis, "api");
    let drained = bucket.drain().await.now;
    for _ in 0..3 {
        redis.ask::<()>(disturbance).await;
        looked(redis, 3).await;
    }
    credited_once_since(drained, &bucket, now(redis).await).await;
    daemon
}

#[tokio::test]
async fn it_carries_on_when_scripts_are_flushed() {
    let redis = Redis::start().await;
    let daemon = carries_on(&redis, &["SCRIPT", "FLUSH"]).await;
    // A flush between the loading of a script and its call is no fault of the daemon.
    let complaints = complaints(&daemon).into_iter().filter(|line| !line.contains("(NoScript"));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn it_carries_on_when_its_connection_is_cut() {
    let redis = Redis::start().await;
    let daemon = carries_on(&redis, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    assert_eq!(said(&daemon, "publishing again"), 0, "{:?}", daemon.lines());
}
