//! The messages to systemd, also while Redis is away.

use topup_tests::{Launch, NotifySocket, Redis, SOON};

use crate::service::started;

const LIMIT: &str = "[limit.api]\ncapacity = 10\nrate = \"5/s\"\n";
const FASTER: &str = "[limit.api]\ncapacity = 10\nrate = \"50/s\"\n";
const BAD: &str = "[limit.api]\ncapacity = 0\nrate = \"5/s\"\n";

fn heard(systemd: &NotifySocket, line: &str) -> usize {
    systemd.seen().iter().filter(|message| message.lines().any(|found| found == line)).count()
}

#[tokio::test]
async fn ready_says_how_it_is_going() {
    let (redis, mut systemd) = (Redis::start().await, NotifySocket::bind());
    let _daemon = Launch::new(LIMIT).redis(&redis).notify(&systemd).run();
    let ready = systemd.wait_for("READY=1", SOON).await;
    assert!(ready.contains("STATUS=connected, 1 limit, generation 1"), "{ready}");
    let status = systemd.wait_for("STATUS=", SOON).await;
    assert!(status.contains("STATUS=connected"), "{status}");
}

#[tokio::test]
async fn it_is_alive_but_not_ready_while_redis_is_away() {
    let (mut redis, mut systemd) = (Redis::tcp().await, NotifySocket::bind());
    redis.server.kill().unwrap();
    let mut daemon = Launch::new(LIMIT).redis(&redis).notify(&systemd).run();
    daemon.wait_for_line("Redis is away", SOON).await;
    systemd.wait_for("STATUS=Redis is away", SOON).await;
    systemd.wait_for("WATCHDOG=1", SOON).await;
    // A reload that is taken for a start would make it ready.
    for config in [FASTER, BAD] {
        daemon.reload(config);
        let said = if config == BAD { "refused as a whole" } else { "reloaded: limit api" };
        daemon.wait_for_line(said, SOON).await;
        systemd.wait_for("WATCHDOG=1", SOON).await;
        assert_eq!(heard(&systemd, "READY=1"), 0, "{:?}", systemd.seen());
    }
    redis.restart().await;
    systemd.wait_for("READY=1", SOON).await;
    assert_eq!(redis.ask::<String>(&["HGET", "topup:{api:0}:limit", "rate"]).await, "50/s");
}

#[tokio::test]
async fn it_is_alive_while_redis_hangs() {
    let redis = Redis::start().await;
    let (mut daemon, mut systemd) = started(LIMIT, &redis).await;
    redis.server.pause().unwrap();
    daemon.wait_for_line("Redis is away", SOON).await;
    systemd.wait_for("STATUS=Redis is away", SOON).await;
    systemd.wait_for("WATCHDOG=1", SOON).await;
    redis.server.resume().unwrap();
    systemd.wait_for("STATUS=connected", SOON).await;
}

#[tokio::test]
async fn a_reload_good_or_bad_ends_with_ready() {
    let redis = Redis::start().await;
    let (daemon, mut systemd) = started(LIMIT, &redis).await;
    for config in [BAD, FASTER] {
        daemon.reload(config);
        let reloading = systemd.wait_for("RELOADING=1", SOON).await;
        let instant = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
        assert!(instant.parse::<u64>().unwrap() > 0, "{reloading}");
        let ready = systemd.wait_for("READY=1", SOON).await;
        assert_eq!(
            ready.contains("config on disk refused: config.toml:2: limit.api.capacity"),
            config == BAD,
            "{ready}"
        );
    }
    assert_eq!((heard(&systemd, "RELOADING=1"), heard(&systemd, "READY=1")), (2, 3));
}
