//! A schedule switches at its boundary, whoever is there to see it.

use topup_tests::{Daemon, Redis, SOON, Signal, eventually};

use super::{bucket::Bucket, now, ready};

const SECOND: u64 = 1_000_000;
/// Tokens a second before the boundary and behind it.
const SLOW: u64 = 10;
const FAST: u64 = 1_000;

/// A full second so many seconds ahead, in µs.
pub(super) async fn boundary_in(redis: &Redis, seconds: u64) -> u64 {
    // Building it, or finding it built, takes a time of its own.
    let _ = Daemon::program();
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

/// Waits for the rate that applies from `boundary` on, and not a µs before.
async fn switched(redis: &Redis, boundary: u64, rate: u64) {
    let record = async |field: &str| redis.ask::<String>(&["HGET", "topup:{api:0}:limit", field]).await;
    eventually(SOON, async || record("rate").await == format!("{rate}/s")).await;
    assert!(now(redis).await >= boundary);
    assert_eq!(record("since").await, boundary.to_string());
}

/// A bucket drained at `drained` has had each rate for its time, but for a pass that the boundary overtakes: a busy
/// machine may take so many ms over one.
async fn credited(redis: &Redis, bucket: &Bucket, drained: u64, boundary: u64, rates: [u64; 2]) {
    const OVERTAKEN: u64 = 50;
    eventually(SOON, async || now(redis).await > boundary + SECOND / 2).await;
    let seen = bucket.peek().await;
    let owed = (boundary - drained) * rates[0] / SECOND + (seen.now - boundary) * rates[1] / SECOND;
    assert!(seen.tokens.abs_diff(owed) <= OVERTAKEN, "{} tokens, {owed} owed", seen.tokens);
}

#[tokio::test]
async fn the_rate_changes_at_its_boundary() {
    let redis = Redis::start().await;
    let boundary = boundary_in(&redis, 2).await;
    let _daemon = ready(&config(boundary), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    switched(&redis, boundary, FAST).await;
    credited(&redis, &bucket, drained, boundary, [SLOW, FAST]).await;
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
    switched(&redis, boundary, FAST).await;
    credited(&redis, &bucket, drained, boundary, [SLOW, FAST]).await;
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
    switched(&redis, boundary, FAST).await;
    credited(&redis, &bucket, drained, boundary, [SLOW, FAST]).await;
    super::looked(&redis, 2).await;
    credited(&redis, &bucket, drained, boundary, [SLOW, FAST]).await;
}

/// What the last turn before the publication finds due is in part time behind the boundary: it waits for the new rate.
#[tokio::test]
async fn time_behind_a_boundary_is_not_credited_at_the_rate_before_it() {
    let redis = Redis::start().await;
    let boundary = boundary_in(&redis, 2).await;
    let (slow, fast, swap) = (format!("{SLOW}/s"), format!("{FAST}/s"), "swap");
    let config = config(boundary).replace(&slow, swap).replace(&fast, &slow).replace(swap, &fast);
    let _daemon = ready(&config.replace("20ms", "250ms"), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    switched(&redis, boundary, SLOW).await;
    credited(&redis, &bucket, drained, boundary, [FAST, SLOW]).await;
}
