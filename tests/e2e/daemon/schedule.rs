//! A schedule switches at its boundary, whoever is there to see it.

use topup_tests::{Redis, SOON, Signal, eventually};

use super::{bucket::Bucket, now, ready};

const SECOND: u64 = 1_000_000;
/// Tokens a second before the boundary and behind it.
const SLOW: u64 = 10;
const FAST: u64 = 1_000;

/// A limit that is slow, and fast from `boundary` (µs) on; the boundary and the config.
pub(super) async fn boundary_in(redis: &Redis, seconds: u64) -> u64 {
    (now(redis).await / SECOND + seconds) * SECOND
}

/// The cron of an instant, in UTC; it comes every day.
pub(super) fn cron(at: u64) -> String {
    let seconds = at / SECOND % 86_400;
    format!("{} {} {} * * *", seconds % 60, seconds / 60 % 60, seconds / 3600)
}

fn config(boundary: u64) -> String {
    format!(
        "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 100000\nrate = \"{SLOW}/s\"\n\
         [[limit.api.schedule]]\ncron = \"{}\"\nrate = \"{SLOW}/s\"\n\
         [[limit.api.schedule]]\ncron = \"{}\"\nrate = \"{FAST}/s\"\n",
        cron(boundary - 3_600 * SECOND),
        cron(boundary),
    )
}

/// Waits for the fast rate, which applies from `boundary` on and not a µs before.
async fn switched(redis: &Redis, boundary: u64) {
    let record = async |field: &str| redis.ask::<String>(&["HGET", "topup:{api:0}:limit", field]).await;
    eventually(SOON, async || record("rate").await == format!("{FAST}/s")).await;
    assert!(now(redis).await >= boundary);
    assert_eq!(record("since").await, boundary.to_string());
}

/// A bucket drained at `drained` has had each rate for its time.
async fn credited(bucket: &Bucket, drained: u64, boundary: u64) {
    let seen = bucket.peek().await;
    let owed = (boundary - drained) * SLOW / SECOND + (seen.now - boundary) * FAST / SECOND;
    assert!(seen.tokens.abs_diff(owed) <= 3, "{} tokens, {owed} owed", seen.tokens);
}

#[tokio::test]
async fn the_rate_changes_at_its_boundary() {
    let redis = Redis::start().await;
    let boundary = boundary_in(&redis, 2).await;
    let _daemon = ready(&config(boundary), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    switched(&redis, boundary).await;
    credited(&bucket, drained, boundary).await;
}

#[tokio::test]
async fn a_boundary_that_no_daemon_saw_counts_from_its_instant() {
    let redis = Redis::start().await;
    let boundary = boundary_in(&redis, 2).await;
    let mut daemon = ready(&config(boundary), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    daemon.signal(Signal::TERM);
    daemon.wait_exit(SOON).await;
    eventually(SOON, async || now(&redis).await > boundary + SECOND / 2).await;
    let _daemon = ready(&config(boundary), &redis).await;
    switched(&redis, boundary).await;
    credited(&bucket, drained, boundary).await;
}

/// Both see the boundary; it happens once.
#[tokio::test]
async fn two_daemons_switch_as_one_does() {
    let redis = Redis::start().await;
    let boundary = boundary_in(&redis, 2).await;
    let config = config(boundary);
    let (_one, _other) = (ready(&config, &redis).await, ready(&config, &redis).await);
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    switched(&redis, boundary).await;
    credited(&bucket, drained, boundary).await;
    super::looked(&redis, 10).await;
    credited(&bucket, drained, boundary).await;
}
