//! Incidents, as the person on call meets them. `topupd status` answers within 2 s. It says what is wrong and what to do,
//! and has an exit code for each.

use std::time::Duration;

use serde_json::Value;
use topup_embedded::{RedisServer, ReservedPort};
use topup_tests::{
    Cli, Incident, Launch, Loading, Proxy, Redis, SOON, Signal, Stalls, clock, eventually, stalls::void,
};

use super::{GONE, STANDSTILL, despite_standstill, is_late_by_seconds, ready};

const LIMITS: &str =
    "[limit.api]\ncapacity = 9\nrate = \"1/h\"\n[limit.user]\nkeyed = true\ncapacity = 9\nrate = \"1/h\"\n";

/// The exit codes of `status`.
const HEALTHY: i32 = 0;
const UNDECIDED: i32 = 2;
const UNPUBLISHED: i32 = 3;
const NO_DAEMON: i32 = 4;
const DEGRADED: i32 = 5;

/// The answer of `topupd status` for `url`, as text and as JSON.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    text: String,
    json: Value,
}

/// Asks for the status until text and JSON agree: on a busy machine, one of them may not have had its answers in time.
async fn status(url: &str) -> Told {
    eventually(SOON, async || ask(url).await).await
}

/// Asks for the status. Holds each answer to its 2 s. An error if text and JSON differ.
async fn ask(url: &str) -> Result<Told, String> {
    let (stalls, sent) = (Stalls::watch(), clock::now());
    let [text, json] =
        [&[][..], &["--json"]].map(|json| Cli::new(&[&["status", "--redis", url], json].concat()).run());
    let (text, json) = tokio::join!(text, json);
    let took = Duration::from_micros(clock::now() - sent);
    assert!(took < stalls.allow(Duration::from_secs(2)), "{took:?}: {text:?}");
    assert_eq!((text.stderr.as_str(), json.stderr.as_str()), ("", ""), "{text:?}, {json:?}");
    if text.code != json.code {
        return Err(format!("{text:?}, {json:?}"));
    }
    let json = serde_json::from_str(&json.stdout).unwrap();
    Ok(Told { code: text.code, text: text.stdout, json })
}

/// The status of a slow Redis. A machine that stands still makes a slow answer none at all.
async fn status_of_slow(url: &str) -> Told {
    despite_standstill(async || status(url).await, |told| told.code == Some(UNDECIDED)).await
}

/// The first problem, while it may change.
async fn cause(url: &str) -> Value {
    let json = Cli::new(&["status", "--json", "--redis", url]).run().await.stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    json["problems"][0]["cause"].clone()
}

impl Told {
    /// Holds the status to an exit code, a cause, and the words for it.
    fn is(&self, code: i32, cause: &str, words: &str) {
        let Self { text, json, .. } = self;
        assert_eq!(self.code, Some(code), "{text}");
        let causes: Vec<&str> = json["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| problem["cause"].as_str().unwrap())
            .collect();
        assert_eq!(causes.first(), Some(&cause), "{causes:?}: {text}");
        assert!(text.contains(words) && text.contains("to do: "), "{words:?} in {text}");
        assert_eq!(text.matches("Redis redis").count(), 1, "the server is named once: {text}");
    }
}

#[tokio::test]
async fn each_incident_is_told_from_the_others() {
    let mut redis = Redis::with(RedisServer::builder().tcp().arg("--dbfilename", "folder")).await;
    let url = redis.url().to_owned();
    status(&url).await.is(UNPUBLISHED, "unpublished", "nothing is published");
    let mut daemon = ready(LIMITS, &redis).await;
    let told = status(&url).await;
    assert_eq!((told.code, &told.json["health"]), (Some(HEALTHY), &"healthy".into()), "{}", told.text);
    assert!(told.text.contains("\nhealthy\n") && told.text.contains("1 daemon alive"), "{}", told.text);

    // A daemon counts its heartbeats out for a second.
    daemon.end(Signal::KILL, GONE).await;
    eventually(SOON, async || cause(&url).await == "no-daemon").await;
    status(&url).await.is(NO_DAEMON, "no-daemon", "no daemon is alive");
    let _daemon = ready(LIMITS, &redis).await;

    let set = async |name: &str, value: &str| redis.ask::<()>(&["CONFIG", "SET", name, value]).await;
    for (incident, cause, words) in [
        (Incident::Memory, "memory", "out of memory"),
        (Incident::Replicas, "replicas", "too few replicas"),
        (Incident::Replica, "replica", "read-only replica"),
        (Incident::Disk, "disk", "cannot save"),
        (Incident::Busy, "busy", "busy with a script"),
    ] {
        incident.begin(&redis).await;
        status(&url).await.is(UNDECIDED, cause, words);
        incident.end(&redis).await;
    }

    set("requirepass", "right").await;
    status(&url).await.is(UNDECIDED, "password", "refuses the password");
    let told = status(&url.replace("redis://", "redis://:wrong-one@")).await;
    told.is(UNDECIDED, "password", "refuses the password");
    assert!(
        told.text.contains("redis://***@127.0.0.1:") && !told.text.contains("wrong-one"),
        "{}",
        told.text
    );
    set("requirepass", "").await;

    redis.server.pause().unwrap();
    status(&url).await.is(UNDECIDED, "silent", "does not answer");
    redis.server.resume().unwrap();

    redis.server.kill().unwrap();
    status(&url).await.is(UNDECIDED, "refused", "nothing listens");
    status("redis://no-such-host.invalid").await.is(UNDECIDED, "unreachable", "cannot be reached");
    let socket = status(&format!("redis+unix://{}", redis.server.socket().display())).await;
    socket.is(UNDECIDED, "refused", "nothing listens");
}

#[tokio::test]
async fn a_slow_redis_is_told_from_one_that_is_away() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let proxy = Proxy::before(&redis).await;
    proxy.delay(Duration::from_millis(70));
    let stalls = Stalls::watch();
    let told = status_of_slow(proxy.url()).await;
    told.is(DEGRADED, "slow", "Redis is slow");
    // All stalls count: the answers come one after the other.
    if stalls.total() >= STANDSTILL {
        void("the limits in the status of a slow Redis: the machine stood still again and again");
    } else {
        assert!(told.text.contains("\nuser "), "there is time for all limits: {}", told.text);
    }
    // Each way: too much for all answers.
    proxy.delay(Duration::from_millis(130));
    status_of_slow(proxy.url()).await.is(DEGRADED, "slow", "Redis is slow");
    proxy.hang();
    status(proxy.url()).await.is(UNDECIDED, "silent", "does not answer");
}

#[tokio::test]
async fn a_redis_that_loads_its_data_is_told_from_one_that_is_away() {
    let (redis, value) = (Redis::start().await, random());
    let data: Vec<_> = (0..600).map(|key| (key.to_string(), value.clone())).collect();
    let loading = Loading::of(&redis, &data, 100_000).await;
    eventually(SOON, async || cause(loading.url()).await == "loading").await;
    status(loading.url()).await.is(UNDECIDED, "loading", "loading its data");
}

const TICKS: &str = "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 9\nrate = \"1/h\"\n";

#[tokio::test]
async fn the_daemon_says_that_redis_is_slow_and_that_its_clock_steps() {
    let redis = Redis::start().await;
    let proxy = Proxy::before(&redis).await;
    let mut daemon = Launch::new(TICKS).env("TOPUP_REDIS_URL", proxy.url()).run();
    daemon.wait_for_line("ready", SOON).await;
    proxy.delay(Duration::from_millis(70));
    daemon.wait_for_line("Redis is slow: for a second, every answer", SOON).await;
    proxy.pass();
    daemon.wait_for_line("Redis is no longer slow", SOON).await;
    // By an hour, as to and from summer time.
    proxy.step_clock(3_600_000_000);
    let line = daemon.wait_for_line("clock stepped forward by ", SOON).await;
    assert!(line.contains("by 3600.") || line.contains("by 3599."), "{line}");
    proxy.pass();
    let line = daemon.wait_for_line("clock stepped back by ", SOON).await;
    assert!(line.contains("by 3600.") || line.contains("by 3599."), "{line}");
    let lines = daemon.lines();
    assert!(!lines.iter().any(|line| is_late_by_seconds(line)), "{lines:?}");
}

/// Under systemd, each line has its priority. Anywhere else, none has.
#[tokio::test]
async fn the_journal_gets_priorities() {
    let mut daemon = Launch::new("").env("TOPUP_REDIS_URL", "unix:///nowhere/redis.sock").journal().run();
    daemon.wait_for_line("<4> WARN config.toml:1: no limit is defined", SOON).await;
    daemon.wait_for_line("<6> INFO topupd ", SOON).await;
    daemon.wait_for_line("<4> WARN Redis is away: nothing listens", SOON).await;
    daemon.reload("[limit.api]\nrate = 1\n");
    daemon.wait_for_line("<3>ERROR config.toml:1: limit.api.capacity", SOON).await;
    let mut refused = Launch::new("[redis]\nurl = 5\n").journal().run();
    refused.wait_for_line("<3>config.toml:2: redis.url", SOON).await;
    // A service may start others, which inherit the variable and write elsewhere.
    let mut elsewhere = Launch::new("[redis]\nurl = 5\n").env("JOURNAL_STREAM", "8:15").run();
    let line = elsewhere.wait_for_line("config.toml:2: redis.url", SOON).await;
    assert!(line.starts_with("config.toml"), "{line}");
}

/// A text of 2 KiB that no compression makes short.
fn random() -> String {
    use rand::RngExt;
    rand::rng().sample_iter(rand::distr::Alphanumeric).take(2_048).map(char::from).collect()
}

/// A key and a certificate of its own, and a Redis that speaks TLS only.
#[tokio::test]
async fn a_port_of_tls_is_told_from_one_that_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (key, certificate, port) = (file("key"), file("certificate"), ReservedPort::reserve().unwrap());
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "1",
        ])
        .args(["-subj", "/CN=127.0.0.1", "-keyout", &key, "-out", &certificate])
        .output()
        .expect("openssl should be on the PATH");
    assert!(made.status.success(), "{made:?}");
    let redis = RedisServer::builder()
        .arg("--tls-port", port.number().to_string())
        .arg("--tls-cert-file", &certificate)
        .arg("--tls-key-file", &key)
        .arg("--tls-ca-cert-file", &certificate);
    let _redis = Redis::with(redis).await;
    let url = format!("redis://127.0.0.1:{}", port.number());
    status(&url).await.is(UNDECIDED, "tls", "TLS on one side only");
    let mut daemon = Launch::new(LIMITS).env("TOPUP_REDIS_URL", url).run();
    daemon.wait_for_line("TLS on one side only", SOON).await;
}
