//! The daemon as a service: what it tells systemd, how it handles signals, which exit codes it has.

use topup_tests::{Cli, Daemon, Launch, NotifySocket, Redis, SOON, Signal, eventually};

const GOOD: &str = "[limit.api]\ncapacity = 10\nrate = \"5/s\"\n";
const FASTER: &str = "[limit.api]\ncapacity = 10\nrate = \"50/s\"\n";
const BAD: &str = "[limit.api]\ncapacity = 0\n";

/// sysexits.h; the unit does not restart a daemon that ends with it.
const EX_CONFIG: i32 = 78;

/// A daemon that has told systemd that it is ready.
pub(crate) async fn started(config: &str, redis: &Redis) -> (Daemon, NotifySocket) {
    let mut systemd = NotifySocket::bind();
    let daemon = Launch::new(config).redis(redis).notify(&systemd).run();
    systemd.wait_for("READY=1", SOON).await;
    (daemon, systemd)
}

#[tokio::test]
async fn systemd_hears_ready_then_signs_of_life_then_stopping() {
    let redis = Redis::start().await;
    let (mut daemon, mut systemd) = started(GOOD, &redis).await;
    systemd.wait_for("WATCHDOG=1", SOON).await;
    daemon.signal(Signal::TERM);
    systemd.wait_for("STOPPING=1", SOON).await;
    assert!(daemon.wait_exit(SOON).await.success());
}

#[tokio::test]
async fn a_reload_is_announced_and_ends_with_ready() {
    let redis = Redis::start().await;
    let (mut daemon, mut systemd) = started(GOOD, &redis).await;
    daemon.reload(FASTER);
    let reloading = systemd.wait_for("RELOADING=1", SOON).await;
    assert!(reloading.contains("MONOTONIC_USEC="), "systemd 253 asks for it: {reloading}");
    systemd.wait_for("READY=1", SOON).await;
    daemon.wait_for_line("reloaded: ", SOON).await;
}

#[tokio::test]
async fn a_bad_reload_is_refused_and_the_daemon_goes_on() {
    let redis = Redis::start().await;
    let (mut daemon, mut systemd) = started(GOOD, &redis).await;
    daemon.reload(BAD);
    daemon.wait_for_line("capacity", SOON).await;
    systemd.wait_for("WATCHDOG=1", SOON).await;
    assert!(daemon.end(Signal::TERM, SOON).await.success());
}

#[tokio::test]
async fn a_first_start_with_a_bad_config_ends_with_78() {
    let redis = Redis::start().await;
    let mut daemon = Daemon::spawn(BAD, &redis);
    assert_eq!(daemon.wait_exit(SOON).await.code(), Some(EX_CONFIG));
    let keys: Vec<String> = redis.ask(&["KEYS", "*"]).await;
    let of_heartbeats = ["topup:{topup}:schema", "topup:{topup}:owners"];
    assert!(keys.iter().all(|key| of_heartbeats.contains(&key.as_str())), "{keys:?}");
    let lines = daemon.lines();
    assert!(lines.iter().any(|line| line.contains("config.toml:2: limit.api.capacity")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("nothing is published")), "{lines:?}");
}

/// As after a crash or a reboot with a mistake in the file.
#[tokio::test]
async fn a_start_with_a_bad_config_refills_what_is_published_and_says_so() {
    // Both daemons are of one config.
    let [good, bad, faster] = [GOOD, BAD, FASTER].map(|limits| format!("name = \"shop\"\n{limits}"));
    let (redis, mut systemd) = (Redis::start().await, NotifySocket::bind());
    let mut first = Launch::new(&good).redis(&redis).run();
    first.wait_for_line("ready", SOON).await;
    first.end(Signal::KILL, SOON).await;
    let mut daemon = Launch::new(&bad).redis(&redis).notify(&systemd).run();
    daemon.wait_for_line("what is published is refilled: fix the lines above", SOON).await;
    let status = systemd.wait_for("READY=1", SOON).await;
    assert!(status.contains("config on disk refused: config.toml:2: limit.api.rate"), "{status}");
    assert!(status.contains("(since 2"), "{status}");
    // An emptied bucket counts, and the daemon fills it.
    let taken = Cli::new(&["take", "api", "--count", "10"]).redis(&redis).run().await;
    assert_eq!(taken.code, Some(0), "{taken:?}");
    eventually(SOON, async || redis.ask::<Vec<String>>(&["KEYS", "*}:b:*"]).await.is_empty()).await;
    let pid = daemon.pid().to_string();
    let refused = async || {
        let told = Cli::new(&["status", "--json"]).redis(&redis).run().await;
        let report: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        let daemons = report["daemons"].as_array().unwrap().clone();
        daemons.into_iter().find(|row| row["id"].as_str().unwrap().contains(&pid)).unwrap()
    };
    let row =
        eventually(SOON, async || Some(refused().await).filter(|row| row["config_refused"].is_string()))
            .await;
    let since = row["config_refused_since"].as_str().unwrap().to_owned();
    assert!(since.starts_with("20"), "{row}");
    // Lost records are repaired, too.
    eventually(SOON, async || redis.command_calls("hlen").await > 3).await;
    redis.ask::<u64>(&["DEL", "topup:{api:0}:limit"]).await;
    daemon.wait_for_line("repaired: limit api, shard 0: no record", SOON).await;
    // The same mistake is not listed again, another one is.
    daemon.signal(Signal::HUP);
    daemon.wait_for_line("with the same mistakes as before", SOON).await;
    daemon.reload("name = \"shop\"\n[limit.api]\ncapacity = 1\nrate = \"never\"\n");
    daemon.wait_for_line("config.toml:4: limit.api.rate", SOON).await;
    eventually(SOON, async || {
        let row = refused().await;
        row["config_refused"].as_str().is_some_and(|problem| problem.contains("config.toml:4"))
            && row["config_refused_since"] == *since
    })
    .await;
    let text = Cli::new(&["status"]).redis(&redis).run().await.stdout;
    assert!(text.contains(&format!("config on disk refused since {since}: config.toml:4")), "{text}");
    // A good file ends it.
    daemon.reload(&faster);
    daemon.wait_for_line("reloaded: limit api", SOON).await;
    eventually(SOON, async || refused().await["config_refused"].is_null()).await;
    let rate = async || redis.ask::<String>(&["HGET", "topup:{api:0}:limit", "rate"]).await;
    eventually(SOON, async || rate().await == "50/s").await;
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
    daemon.end(Signal::KILL, SOON).await;
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
