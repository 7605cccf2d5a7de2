//! The daemon as a service: what it tells systemd, how it obeys signals, which exit codes it has.

use topup_tests::{Daemon, Launch, NotifySocket, Redis, SOON, Signal, eventually};

const GOOD: &str = "[limit.api]\ncapacity = 10\nrate = \"5/s\"\n";
const FASTER: &str = "[limit.api]\ncapacity = 10\nrate = \"50/s\"\n";
const BAD: &str = "[limit.api]\ncapacity = 0\n";

/// sysexits.h; the unit does not restart a daemon that ends with it.
const EX_CONFIG: i32 = 78;

#[tokio::test]
async fn systemd_hears_ready_then_signs_of_life_then_stopping() {
    let (redis, mut systemd) = (Redis::start().await, NotifySocket::bind());
    let mut daemon = Launch::new(GOOD).redis(&redis).notify(&systemd).run();
    systemd.wait_for("READY=1", SOON).await;
    systemd.wait_for("WATCHDOG=1", SOON).await;
    daemon.signal(Signal::TERM);
    systemd.wait_for("STOPPING=1", SOON).await;
    assert!(daemon.wait_exit(SOON).await.success());
}

#[tokio::test]
async fn a_reload_is_announced_and_ends_with_ready() {
    let (redis, mut systemd) = (Redis::start().await, NotifySocket::bind());
    let mut daemon = Launch::new(GOOD).redis(&redis).notify(&systemd).run();
    systemd.wait_for("READY=1", SOON).await;
    daemon.rewrite_config(FASTER);
    daemon.signal(Signal::HUP);
    let reloading = systemd.wait_for("RELOADING=1", SOON).await;
    assert!(reloading.contains("MONOTONIC_USEC="), "systemd 253 asks for it: {reloading}");
    systemd.wait_for("READY=1", SOON).await;
    daemon.wait_for_line("reloaded: ", SOON).await;
}

#[tokio::test]
async fn a_bad_reload_is_refused_and_the_daemon_goes_on() {
    let (redis, mut systemd) = (Redis::start().await, NotifySocket::bind());
    let mut daemon = Launch::new(GOOD).redis(&redis).notify(&systemd).run();
    systemd.wait_for("READY=1", SOON).await;
    daemon.rewrite_config(BAD);
    daemon.signal(Signal::HUP);
    daemon.wait_for_line("capacity", SOON).await;
    systemd.wait_for("WATCHDOG=1", SOON).await;
    daemon.signal(Signal::TERM);
    assert!(daemon.wait_exit(SOON).await.success());
}

#[tokio::test]
async fn a_bad_config_ends_with_78_before_redis_is_asked() {
    let redis = Redis::start().await;
    let mut daemon = Daemon::spawn(BAD, &redis);
    assert_eq!(daemon.wait_exit(SOON).await.code(), Some(EX_CONFIG));
    assert_eq!(redis.dbsize().await, 0);
}

#[tokio::test]
async fn check_has_the_exit_codes_that_a_reload_relies_on() {
    let good = Launch::new(GOOD).check(SOON).await;
    assert!(good.status.success(), "{good:?}");
    let bad = Launch::new(BAD).check(SOON).await;
    assert_eq!(bad.status.code(), Some(EX_CONFIG));
    assert!(String::from_utf8(bad.stderr).unwrap().contains("capacity"));
}

#[tokio::test]
async fn the_redis_url_comes_from_the_credential() {
    let (redis, folder) = (Redis::start().await, tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("redis-url"), format!("{}\n", redis.url())).unwrap();
    let mut daemon = Launch::new(GOOD).env("CREDENTIALS_DIRECTORY", folder.path()).run();
    daemon.wait_for_line("ready", SOON).await;
    assert_ne!(redis.dbsize().await, 0, "the limit is published there");
}

#[tokio::test]
async fn an_embedded_redis_ends_with_a_daemon_that_is_killed() {
    let mut daemon = Launch::new(GOOD).arg("--embedded").run();
    daemon.wait_for_line("ready", SOON).await;
    let children = format!("/proc/{}/task", daemon.pid());
    let redis = child_of(&children);
    daemon.signal(Signal::KILL);
    daemon.wait_exit(SOON).await;
    let stat = format!("/proc/{redis}/stat");
    // A zombie has ended, and waits for whoever adopted it to notice.
    eventually(SOON, async || !std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z"))).await;
}

/// The one child of a process, whichever of its threads started it.
fn child_of(tasks: &str) -> u32 {
    let tasks = std::fs::read_dir(tasks).unwrap();
    let children = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap());
    children.collect::<String>().trim().parse().unwrap()
}
