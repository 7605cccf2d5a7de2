//! The daemon as a process on a real Redis: signals, reloads, faults, crashes, the calendar and the command line.

mod admin;
mod away;
mod bucket;
mod changes;
mod cli;
mod cost;
mod crash;
mod embedded;
mod freeze;
mod healing;
mod incidents;
mod keys;
mod notify;
mod owners;
mod page;
mod plan;
mod quota;
mod refill;
mod refused;
mod reload;
mod schedule;
mod shipped;
mod signals;
mod strays;
mod together;
mod traffic;
mod watch;

use std::{fmt::Debug, time::Duration};

use topup_tests::{Daemon, Redis, SOON, Stalls, eventually};

/// Deadline of a daemon's end: ten times the second that it takes at most.
const GONE: Duration = Duration::from_secs(10);

/// Stalls of so many µs in all may make Redis seem slow, or cost its answer.
const STANDSTILL: u64 = 100_000;

/// The answer to `ask`. If it is in vain and the machine stood still meanwhile, asks again.
async fn despite_standstill<T>(ask: impl AsyncFn() -> T, is_in_vain: impl Fn(&T) -> bool) -> T
where
    T: Debug,
{
    eventually(SOON, async || {
        let stalls = Stalls::watch();
        let told = ask().await;
        if is_in_vain(&told) && stalls.total() >= STANDSTILL { Err(told) } else { Ok(told) }
    })
    .await
}

/// A daemon that has said it is ready.
async fn ready(config: &str, redis: &Redis) -> Daemon {
    let mut daemon = Daemon::spawn(config, redis);
    daemon.wait_for_line("ready", SOON).await;
    daemon
}

/// A daemon that was ready, and has noticed that its Redis is killed.
async fn left_alone(config: &str) -> (Redis, Daemon) {
    let mut redis = Redis::tcp().await;
    let mut daemon = ready(config, &redis).await;
    redis.server.kill().unwrap();
    daemon.wait_for_line("Redis is away", SOON).await;
    (redis, daemon)
}

/// Gives a daemon another config and waits until it has read it.
async fn reload(daemon: &mut Daemon, config: &str) {
    daemon.reload(config);
    daemon.wait_for_line("reloaded: ", SOON).await;
}

/// The instant of Redis, in µs.
async fn now(redis: &Redis) -> u64 {
    let (seconds, micros): (u64, u64) = redis.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

/// Waits until the daemons have looked at buckets `times` more: long enough for whatever should not happen to happen.
async fn looked(redis: &Redis, times: u64) {
    // A shard of whose buckets none is known, and one that has some.
    let looks = async || redis.command_calls("exists").await + redis.command_calls("zrangebyscore").await;
    let before = looks().await;
    eventually(SOON, async || {
        let looks = looks().await - before;
        if looks >= times { Ok(()) } else { Err(looks) }
    })
    .await;
}

/// Whether a line says that refilling is late by a second or more, which a busy machine hardly is.
fn is_late_by_seconds(line: &str) -> bool {
    let late = line.split_once("refilling is ").and_then(|(_, late)| late.split_once(" behind its tick"));
    late.is_some_and(|(late, _)| !late.ends_with("ms") && !late.ends_with("µs") && !late.ends_with("ns"))
}

/// The warnings and errors of a daemon, but for those about a busy machine.
fn complaints(daemon: &Daemon) -> Vec<String> {
    let complains = |line: &String| line.contains("WARN") || line.contains("ERROR");
    let excused = |line: &String| line.contains("behind its tick") || line.contains("Redis is slow");
    daemon.lines().into_iter().filter(|line| complains(line) && !excused(line)).collect()
}
