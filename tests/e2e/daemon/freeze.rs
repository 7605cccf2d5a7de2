//! A change of terms is announced first, and made when all workers know of it. Nothing else waits for that.

use topup_tests::{Daemon, Redis, SOON, Signal, eventually};
use topup_wire::reply::Verdict;

use super::{bucket::Bucket, now, ready, reload};

const FREEZE: u64 = 750_000;

/// `api` at such a rate, and another limit.
fn config(rate: &str, other: &str) -> String {
    format!(
        "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 10\nrate = \"{rate}\"\n[limit.other]\ncapacity = 10\n{other}\n"
    )
}

fn at(rate: &str) -> String {
    config(rate, "rate = \"1/h\"")
}

async fn field(redis: &Redis, field: &str) -> String {
    redis.ask(&["HGET", "topup:{api:0}:limit", field]).await
}

/// Waits until the record is frozen: since when.
async fn frozen(redis: &Redis) -> u64 {
    eventually(SOON, async || match field(redis, "frozen").await.parse::<u64>().unwrap() {
        0 => Err("not frozen"),
        since => Ok(since),
    })
    .await
}

/// Waits until the rate is published. Returns the instant from which it applies.
async fn applies_from(redis: &Redis, rate: &str) -> u64 {
    eventually(SOON, async || {
        let found = field(redis, "rate").await;
        if found == rate { Ok(()) } else { Err(found) }
    })
    .await;
    assert_eq!(field(redis, "frozen").await, "0");
    field(redis, "since").await.parse().unwrap()
}

#[tokio::test]
async fn takes_heartbeats_and_other_limits_go_on_during_a_freeze() {
    let redis = Redis::start().await;
    let mut daemon = ready(&at("1/h"), &redis).await;
    reload(&mut daemon, &config("2/h", "rate = \"1/h\"\nlease = { max = 2, ttl = \"1s\" }")).await;
    let since = frozen(&redis).await;
    let lease: String = redis.ask(&["HGET", "topup:{other:0}:limit", "lease"]).await;
    let bucket = Bucket::of(&redis, "api");
    for left in [9, 8, 7] {
        assert_eq!(bucket.take(1).await.tokens, left);
    }
    let heard = redis.command_calls("zremrangebyscore").await;
    eventually(SOON, async || redis.command_calls("zremrangebyscore").await > heard + 1).await;
    let still = field(&redis, "rate").await == "1/h";
    assert!(still || now(&redis).await > since + FREEZE, "made within the freeze");
    assert!(!still || lease == "2", "another limit waits for it");
    assert!(applies_from(&redis, "2/h").await >= since + FREEZE);
}

#[tokio::test]
async fn a_reload_during_a_freeze_is_followed_at_its_end() {
    let redis = Redis::start().await;
    let mut daemon = ready(&at("1/h"), &redis).await;
    reload(&mut daemon, &at("2/h")).await;
    let since = frozen(&redis).await;
    reload(&mut daemon, &at("3/h")).await;
    let applies = applies_from(&redis, "3/h").await;
    assert!(applies >= since + FREEZE);
    assert_eq!(field(&redis, "was_n").await, "1");
    assert_eq!(field(&redis, "was_p").await, "3600000000", "2/h was never in force");
}

#[tokio::test]
async fn a_change_taken_back_during_its_freeze_is_never_made() {
    let redis = Redis::start().await;
    let mut daemon = ready(&at("1/h"), &redis).await;
    let since = field(&redis, "since").await;
    reload(&mut daemon, &at("2/h")).await;
    let frozen = frozen(&redis).await;
    reload(&mut daemon, &at("1/h")).await;
    eventually(SOON, async || field(&redis, "frozen").await == "0").await;
    eventually(SOON, async || now(&redis).await > frozen + 2 * FREEZE).await;
    assert_eq!((field(&redis, "rate").await, field(&redis, "since").await), ("1/h".to_owned(), since));
}

#[tokio::test]
async fn a_change_announced_by_a_daemon_that_was_killed_is_made_by_the_next() {
    let redis = Redis::start().await;
    let mut daemon = ready(&at("1/h"), &redis).await;
    reload(&mut daemon, &at("2/h")).await;
    frozen(&redis).await;
    daemon.end(Signal::KILL, SOON).await;
    assert_eq!(field(&redis, "rate").await, "1/h", "a machine this slow proves nothing");
    let _next = Daemon::spawn(&at("2/h"), &redis);
    applies_from(&redis, "2/h").await;
}

#[tokio::test]
async fn one_of_two_daemons_that_is_killed_takes_no_change_with_it() {
    let redis = Redis::start().await;
    let (mut one, mut other) = (ready(&at("1/h"), &redis).await, ready(&at("1/h"), &redis).await);
    for daemon in [&mut one, &mut other] {
        reload(daemon, &at("2/h")).await;
    }
    let since = frozen(&redis).await;
    one.end(Signal::KILL, SOON).await;
    assert!(applies_from(&redis, "2/h").await >= since + FREEZE);
}

/// However often it comes, a reload does not put off what was announced.
#[tokio::test]
async fn reloads_without_end_do_not_keep_a_change_from_being_made() {
    let redis = Redis::start().await;
    let mut daemon = ready(&at("1/h"), &redis).await;
    reload(&mut daemon, &at("2/h")).await;
    frozen(&redis).await;
    let mut rate = 2;
    eventually(SOON, async || {
        rate += 1;
        reload(&mut daemon, &at(&format!("{rate}/h"))).await;
        field(&redis, "rate").await != "1/h"
    })
    .await;
    applies_from(&redis, &format!("{rate}/h")).await;
    assert_eq!(Bucket::of(&redis, "api").take(1).await.verdict, Verdict::Allowed);
}

/// A Redis that forgets during a freeze gets what is wanted at once: nobody knows anything else.
#[tokio::test]
async fn a_redis_flushed_during_a_freeze_gets_the_new_terms() {
    let redis = Redis::start().await;
    let mut daemon = ready(&at("1/h"), &redis).await;
    reload(&mut daemon, &at("2/h")).await;
    frozen(&redis).await;
    redis.ask::<()>(&["FLUSHALL"]).await;
    eventually(SOON, async || {
        redis.ask::<Option<String>>(&["HGET", "topup:{api:0}:limit", "rate"]).await.as_deref() == Some("2/h")
    })
    .await;
    assert_eq!(field(&redis, "frozen").await, "0");
}
