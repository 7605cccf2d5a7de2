//! A schedule switches at its boundary, whoever is there to see it.

use std::{pin::pin, time::Duration};

use futures_util::StreamExt;
use tokio::time::timeout;
use topup_tests::{Daemon, Redis, SOON, Signal, Stalls, eventually, stalls::void};

use super::{bucket::Bucket, is_late_by_seconds, now, ready};

const SECOND: u64 = 1_000_000;
/// Tokens a second before the boundary and behind it.
const SLOW: u64 = 10;
const FAST: u64 = 1_000;
/// Workers know of a change for as long before it is made.
const FREEZE: u64 = 3 * SECOND / 4;

/// A full second so many seconds ahead, in µs.
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

/// The same the other way round.
fn falling(boundary: u64) -> String {
    let (slow, fast, swap) = (format!("{SLOW}/s"), format!("{FAST}/s"), "swap");
    config(boundary).replace(&slow, swap).replace(&fast, &slow).replace(swap, &fast)
}

const RECORD: &str = "topup:{api:0}:limit";

/// Longest time in µs from the boundary to the higher rate, beside stalls of the machine.
const LATE: u64 = 300_000;

/// Waits for another rate: the instant from which it applies.
async fn switched(redis: &Redis, rate: u64) -> u64 {
    let record = async |field: &str| redis.ask::<String>(&["HGET", "topup:{api:0}:limit", field]).await;
    eventually(SOON, async || {
        let (found, frozen) = (record("rate").await, record("frozen").await);
        if found == format!("{rate}/s") { Ok(()) } else { Err((found, frozen, now(redis).await)) }
    })
    .await;
    record("since").await.parse().unwrap()
}

/// A bucket drained at `drained` has been credited at the first rate until `since`, and at the second from then on. A pass
/// that the change overtakes may be missing: its time on a busy machine, and the stalls of that.
async fn credited(
    redis: &Redis,
    bucket: &Bucket,
    drained: u64,
    since: u64,
    rates: [u64; 2],
    stalls: &Stalls,
) {
    const OVERTAKEN: u64 = 50;
    eventually(SOON, async || now(redis).await > since + SECOND / 2).await;
    let seen = bucket.peek().await;
    let owed = (since - drained) * rates[0] / SECOND + (seen.now - since) * rates[1] / SECOND;
    let overtaken = OVERTAKEN + stalls.worst() / 1_000;
    assert!(seen.tokens.abs_diff(owed) <= overtaken, "{} tokens, {owed} owed", seen.tokens);
}

/// A switch `since` an instant at its boundary, or later by no more than the machine stood still.
fn assert_on_time(since: u64, boundary: u64, stalls: &Stalls, daemon: &Daemon) {
    assert!(since >= boundary, "{} µs early", boundary - since);
    let (late, lines) = (since - boundary, daemon.lines());
    if lines.iter().any(|line| is_late_by_seconds(line)) {
        return void(&format!(
            "a switch {late} µs late: the machine kept the daemon from running for seconds"
        ));
    }
    assert!(late < LATE + stalls.worst(), "{late} µs late: {lines:?}");
}

#[tokio::test]
async fn the_rate_changes_at_its_boundary() {
    let (redis, stalls) = (Redis::start().await, Stalls::watch());
    let boundary = boundary_in(&redis, 3).await;
    let daemon = ready(&config(boundary), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    let since = switched(&redis, FAST).await;
    assert_on_time(since, boundary, &stalls, &daemon);
    credited(&redis, &bucket, drained, since, [SLOW, FAST], &stalls).await;
}

#[tokio::test]
async fn a_raise_holds_without_a_daemon() {
    let (redis, stalls) = (Redis::start().await, Stalls::watch());
    let boundary = boundary_in(&redis, 3).await;
    holds_alone(&redis, &config(boundary), boundary, [SLOW, FAST], &stalls).await;
}

#[tokio::test]
async fn a_cut_holds_without_a_daemon() {
    let (redis, stalls) = (Redis::start().await, Stalls::watch());
    let boundary = boundary_in(&redis, 3).await;
    holds_alone(&redis, &falling(boundary), boundary, [FAST, SLOW], &stalls).await;
}

/// Scripts follow a change that no daemon saw. The daemon that comes later makes it as of its boundary, and credits no
/// time twice.
async fn holds_alone(redis: &Redis, config: &str, boundary: u64, rates: [u64; 2], stalls: &Stalls) {
    let (bucket, drained) = missed(redis, config, boundary).await;
    credited(redis, &bucket, drained, boundary, rates, stalls).await;
    assert_eq!(redis.ask::<String>(&["HGET", RECORD, "rate"]).await, format!("{}/s", rates[0]));
    let _daemon = ready(config, redis).await;
    assert_eq!(switched(redis, rates[1]).await, boundary);
    credited(redis, &bucket, drained, boundary, rates, stalls).await;
}

/// A bucket drained while a daemon ran that went before the boundary and that nobody has replaced when it has passed.
async fn missed(redis: &Redis, config: &str, boundary: u64) -> (Bucket, u64) {
    let mut daemon = ready(config, redis).await;
    let bucket = Bucket::of(redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    daemon.end(Signal::TERM, SOON).await;
    eventually(SOON, async || now(redis).await > boundary + SECOND / 2).await;
    (bucket, drained)
}

/// Both see the boundary; it happens once.
#[tokio::test]
async fn two_daemons_switch_as_one_does() {
    let (redis, stalls) = (Redis::start().await, Stalls::watch());
    let boundary = boundary_in(&redis, 3).await;
    let config = config(boundary);
    let (one, _other) = (ready(&config, &redis).await, ready(&config, &redis).await);
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    let since = switched(&redis, FAST).await;
    assert_on_time(since, boundary, &stalls, &one);
    credited(&redis, &bucket, drained, since, [SLOW, FAST], &stalls).await;
    super::looked(&redis, 2).await;
    credited(&redis, &bucket, drained, since, [SLOW, FAST], &stalls).await;
}

/// The last turn before the publication finds buckets due. Their time behind the boundary waits for the new rate.
#[tokio::test]
async fn time_behind_a_boundary_is_not_credited_at_the_rate_before_it() {
    let (redis, stalls) = (Redis::start().await, Stalls::watch());
    let boundary = boundary_in(&redis, 3).await;
    let _daemon = ready(&falling(boundary).replace("20ms", "250ms"), &redis).await;
    let bucket = Bucket::of(&redis, "api");
    let drained = bucket.drain().await.now;
    assert!(drained < boundary, "a machine this slow proves nothing");
    assert_eq!(switched(&redis, SLOW).await, boundary);
    credited(&redis, &bucket, drained, boundary, [FAST, SLOW], &stalls).await;
}

/// Workers know before the boundary, and take by script until it is behind them.
#[tokio::test]
async fn a_change_is_announced_ahead_of_its_boundary() {
    let (redis, stalls) = (Redis::start().await, Stalls::watch());
    let boundary = boundary_in(&redis, 3).await;
    let monitor = redis::Client::open(redis.url()).unwrap().get_async_monitor().await.unwrap();
    let mut commands = pin!(monitor.into_on_message::<String>());
    let _daemon = ready(&config(boundary), &redis).await;
    let record = r#" "HSET" "topup:{api:0}:limit" "#;
    let announced = async {
        loop {
            // As a script called it.
            let command = commands.next().await.expect("Redis tells every command");
            let written = command.split_once(record).and_then(|(_, pairs)| pairs.strip_prefix("\"frozen\" "));
            let frozen = written.and_then(|written| written.trim_matches('"').parse::<u64>().ok());
            if let Some(frozen) = frozen.filter(|frozen| *frozen > 0) {
                return frozen;
            }
        }
    };
    let frozen = timeout(SOON, announced).await.expect("the change is announced");
    let since = switched(&redis, FAST).await;
    assert!(since >= boundary && since >= frozen + FREEZE, "announced at {frozen}, changed at {since}");
    if stalls.below(Duration::from_millis(200), "how far ahead a change is announced") {
        assert!((boundary - SECOND..boundary - FREEZE).contains(&frozen), "{} µs ahead", boundary - frozen);
    }
    assert_eq!(redis.ask::<String>(&["HGET", "topup:{api:0}:limit", "frozen"]).await, "0");
}
