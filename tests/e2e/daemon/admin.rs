//! The admin server: what it answers, to whom, and how much it bears.

#![allow(clippy::panic, reason = "an answer of another shape fails the test")]

use std::process::{Command, Stdio};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use topup_tests::{Cli, Daemon, Redis, SOON, Signal, eventually};

use super::ready;

const LIMITS: &str = "[limit.api]\ncapacity = 3\nrate = \"1/h\"\n[limit.user]\nkeyed = true\ncapacity = 5\nrate = \"10/s\"\n\
                      top_keys = 3\nhash_top_keys = true\n[limit.report]\nalgorithm = \"fixed-window\"\nlimit = 7\nwindow = \"1h\"\n";

fn on_port(limits: &str) -> String {
    format!("[admin]\nlisten = \"127.0.0.1:0\"\n{limits}")
}

/// An answer: status, headers, body.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

// === impl Answer ===

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The value of a metric, named with its labels.
    fn metric(&self, name: &str) -> f64 {
        let line = self.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.body)).parse().unwrap()
    }
}

/// Sends `request` and reads the answer to its end.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Answer {
    let mut answer = Vec::new();
    let all = async {
        stream.write_all(request.as_bytes()).await.unwrap();
        // A server that has said enough may break the connection.
        let _ = stream.read_to_end(&mut answer).await;
    };
    timeout(SOON, all).await.expect("an answer");
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

async fn get(address: &str, path: &str) -> Answer {
    get_with(address, path, &format!("Host: {address}\r\n")).await
}

async fn get_with(address: &str, path: &str, headers: &str) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    ask(stream, &format!("GET {path} HTTP/1.1\r\n{headers}\r\n")).await
}

/// The address that the daemon says, and the daemon when it is ready.
async fn start(config: &str, redis: &Redis) -> (Daemon, String) {
    let mut daemon = Daemon::spawn(config, redis);
    let line = daemon.wait_for_line("the admin server listens on ", SOON).await;
    let address = line.split("listens on ").nth(1).unwrap().trim().to_owned();
    // Either line may be the first.
    if !daemon.lines().iter().any(|line| line.contains("ready: ")) {
        daemon.wait_for_line("ready: ", SOON).await;
    }
    (daemon, address)
}

/// Runs promtool on `input`, if this machine has it.
fn promtool(args: &[&str], input: &str) {
    use std::io::Write;
    let mut command = Command::new("promtool");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success(), "{said}");
}

#[tokio::test]
async fn metrics_and_pages_show_the_published_state() {
    let redis = Redis::start().await;
    let (daemon, address) = start(&on_port(LIMITS), &redis).await;
    for _ in 0..5 {
        Cli::new(&["take", "api"]).redis(&redis).run().await;
    }
    Cli::new(&["take", "user", "--key", "a/b c"]).redis(&redis).run().await;
    let counted = async || {
        let metrics = get(&address, "/metrics").await;
        assert_eq!(metrics.status, 200, "{metrics:?}");
        let denied =
            metrics.body.lines().any(|line| line == "topup_takes_total{limit=\"api\",decision=\"denied\"} 2");
        if denied { Ok(metrics) } else { Err(metrics) }
    };
    let metrics = eventually(SOON, counted).await;
    assert_eq!(metrics.metric("topup_takes_total{limit=\"api\",decision=\"allowed\"}"), 3.0);
    assert_eq!(metrics.metric("topup_limit_rate_tokens_per_second{limit=\"user\"}"), 10.0);
    assert_eq!(metrics.metric("topup_limit_capacity_tokens{limit=\"report\"}"), 7.0);
    assert!(!metrics.body.contains("topup_limit_rate_tokens_per_second{limit=\"report\"}"));
    for (name, value) in [
        ("topup_ready", 1.0),
        ("topup_redis_up", 1.0),
        ("topup_daemons_alive", 1.0),
        ("topup_conflicts", 0.0),
    ] {
        assert_eq!(metrics.metric(name), value, "{name}");
    }
    assert!(metrics.metric("topup_refill_lag_seconds_count") > 0.0);
    assert_eq!(metrics.metric("topup_config_refused_since_timestamp_seconds"), 0.0);
    promtool(&["check", "metrics"], &metrics.body);
    let openmetrics =
        format!("Host: {address}\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n");
    let openmetrics = get_with(&address, "/metrics", &openmetrics).await;
    assert!(openmetrics.head.contains("application/openmetrics-text; version=1.0.0"), "{openmetrics:?}");
    assert!(
        openmetrics.body.ends_with("# EOF\n") && openmetrics.body.contains("# TYPE topup_takes counter\n")
    );

    assert_eq!(get(&address, "/healthz").await.json()["healthy"], true);
    assert_eq!(get(&address, "/readyz").await.json(), serde_json::json!({"ready": true, "waits_for": []}));
    let limits = get(&address, "/limits").await.json();
    let names: Vec<_> =
        limits["limits"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["api", "report", "user"]);
    assert_eq!(
        get(&address, "/top").await.json()["top_denied"],
        serde_json::json!({"user": {"hashed": true, "keys": [], "missing": 0}})
    );
    let bucket = get(&address, "/buckets/api").await.json();
    assert_eq!(
        (&bucket["tokens"], &bucket["capacity"], &bucket["would_deny"]),
        (&0.into(), &3.into(), &true.into())
    );
    let bucket = get(&address, "/buckets/user/a%2Fb%20c").await.json();
    assert_eq!((&bucket["key"], &bucket["capacity"]), (&"a/b c".into(), &5.into()));
    for (path, status, word) in [
        ("/buckets/api/alice", 400, "one bucket for all"),
        ("/buckets/user", 400, "is keyed"),
        ("/buckets/nobody", 404, "no limit nobody"),
        ("/buckets/no%20body", 400, "no body"),
        (&format!("/buckets/user/{}", "k".repeat(300)), 400, "256"),
    ] {
        let refused = get(&address, path).await;
        assert!(refused.status == status && refused.body.contains(word), "{path}: {refused:?}");
    }
    assert_eq!(get(&address, "/nothing").await.status, 404);
    assert_eq!(redis.ask::<Vec<String>>(&["KEYS", "*nobody*"]).await, [""; 0], "a look leaves no key");

    // A bad file is told, and ends nothing.
    daemon.reload("nonsense");
    eventually(SOON, async || {
        let metrics = get(&address, "/metrics").await;
        metrics.metric("topup_reloads_total{result=\"refused\"}") == 1.0
            && metrics.metric("topup_config_refused_since_timestamp_seconds") > 1e9
    })
    .await;
}

#[tokio::test]
async fn metrics_tell_permits_holds_and_parts() {
    const KINDS: &str = "[limit.chat]\ncapacity = 50\nrate = \"1/h\"\non_abandon = \"refund\"\n\
                         [limit.plain]\ncapacity = 50\nrate = \"1/h\"\n\
                         [limit.render]\nalgorithm = \"concurrency\"\nlimit = 2\n\
                         [limit.gateway]\nkeyed = true\nshare = \"borrow\"\ncapacity = 40\nrate = \"4/h\"\n\
                         parts = { acme = 3, '\"x\"\\*' = 1 , \"*\" = 4 }\n";
    let redis = Redis::start().await;
    let (_daemon, address) = start(&on_port(KINDS), &redis).await;
    let topup = topup::Client::builder().deadline(SOON).connect(redis.url()).await.unwrap();
    let [chat, plain, render] = ["chat", "plain", "render"].map(|limit| topup.limit(limit));
    let mut holds = Vec::new();
    for bucket in [&chat, &chat, &chat, &plain] {
        holds.push(bucket.reserve_cost(5).await.unwrap());
    }
    holds.swap_remove(0).settle(5).await.unwrap();
    let permits =
        [render.acquire(1, SOON).await, render.acquire(1, SOON).await].map(|held| held.unwrap().unwrap());
    let waiter = tokio::spawn(async move { render.acquire(1, 10 * SOON).await.map(drop) });
    assert!(topup.limit("gateway").key("acme").take(10).await.unwrap().is_allowed());
    let told = eventually(SOON, async || {
        let metrics = get(&address, "/metrics").await;
        let is_waiting = metrics.body.lines().any(|line| line == "topup_limit_waiters{limit=\"render\"} 1.0");
        if is_waiting { Ok(metrics) } else { Err(metrics) }
    })
    .await;
    for (sample, value) in [
        ("topup_limit_held_permits{limit=\"render\"}", 2.0),
        ("topup_limit_open_holds{limit=\"chat\"}", 2.0),
        ("topup_part_capacity_tokens{limit=\"gateway\",part=\"acme\"}", 15.0),
        ("topup_part_tokens{limit=\"gateway\",part=\"acme\"}", 5.0),
        ("topup_part_lent_tokens{limit=\"gateway\",part=\"acme\"}", 0.0),
        ("topup_part_rate_tokens_per_second{limit=\"gateway\",part=\"*\"}", 2.0 / 3600.0),
        // As the format escapes it.
        ("topup_part_tokens{limit=\"gateway\",part=\"\\\"x\\\"\\\\*\"}", 5.0),
    ] {
        assert_eq!(told.metric(sample), value, "{sample}");
    }
    // Redis knows no holds of a limit that charges abandoned ones, and no permits of one with tokens.
    for sample in ["topup_limit_open_holds{limit=\"plain\"}", "topup_limit_held_permits{limit=\"chat\"}"] {
        assert!(!told.body.contains(sample), "{sample}");
    }
    promtool(&["check", "metrics"], &told.body);
    drop(permits);
    waiter.await.unwrap().unwrap();
}

#[tokio::test]
async fn strangers_are_refused_and_floods_are_bounded() {
    let redis = Redis::start().await;
    let (_daemon, address) = start(&on_port(LIMITS), &redis).await;
    let host = format!("Host: {address}\r\n");
    let cases = [
        ("Host: evil.example\r\n".to_owned(), 421),
        ("Host: 127.0.0.1.evil.example\r\n".to_owned(), 421),
        (String::new(), 400),
        (format!("{host}Host: evil.example\r\n"), 400),
        (format!("{host}Content-Length: 5\r\n"), 413),
        (format!("{host}Transfer-Encoding: chunked\r\n"), 413),
        (format!("{host}X: {}\r\n", "x".repeat(100_000)), 431),
        (format!("{host}{}", (0..100).map(|i| format!("X-{i}: y\r\n")).collect::<String>()), 431),
        ("Host: LOCALHOST:1\r\n".to_owned(), 200),
    ];
    for (headers, status) in cases {
        let answer = get_with(&address, "/limits", &headers).await;
        // A server that stops reading may lose its answer with the connection.
        let is_cut = answer.status == 0 && status == 431;
        assert!(answer.status == status || is_cut, "{status}: {answer:?}");
        assert!(!answer.head.to_lowercase().contains("access-control"), "{answer:?}");
    }
    let head = get(&address, "/limits").await.head.to_lowercase();
    assert!(
        head.contains("cache-control: no-store") && head.contains("x-content-type-options: nosniff"),
        "{head}"
    );
    let stream = TcpStream::connect(&address).await.unwrap();
    assert_eq!(ask(stream, &format!("POST /limits HTTP/1.1\r\n{host}\r\n")).await.status, 403);
    // Connections that say nothing end by themselves; those behind them are served then.
    let mut silent = Vec::new();
    for _ in 0..80 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    assert_eq!(get(&address, "/healthz").await.status, 200);
    let mut first = silent.remove(0);
    assert!(matches!(timeout(SOON, first.read(&mut [0; 512])).await, Ok(Ok(_) | Err(_))));
}

#[tokio::test]
async fn readiness_names_what_it_waits_for() {
    let mut redis = Redis::tcp().await;
    let (_daemon, address) = start(&on_port(LIMITS), &redis).await;
    assert_eq!(get(&address, "/readyz").await.status, 200);
    redis.server.kill().unwrap();
    eventually(SOON, async || {
        let readiness = get(&address, "/readyz").await;
        let waits_for = readiness.json()["waits_for"][0].as_str().unwrap_or_default().to_owned();
        readiness.status == 503 && waits_for.starts_with("Redis: ")
    })
    .await;
    // The daemon is well, and its metrics say what is wrong.
    assert_eq!(get(&address, "/healthz").await.status, 200);
    let metrics = get(&address, "/metrics").await;
    assert_eq!((metrics.status, metrics.metric("topup_redis_up")), (200, 0.0));
    assert!(metrics.body.contains("topup_redis_errors_total{cause="), "{}", metrics.body);
    assert_eq!(get(&address, "/buckets/api").await.status, 503);
}

#[tokio::test]
async fn a_token_or_a_socket_keeps_others_out() {
    let redis = Redis::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (token, socket) = (folder.path().join("token"), folder.path().join("admin.sock"));
    std::fs::write(&token, "0123456789abcdef0123\n").unwrap();
    let config = format!("[admin]\nlisten = \"0.0.0.0:0\"\ntoken_file = {token:?}\n{LIMITS}");
    let (_daemon, address) = start(&config, &redis).await;
    let address = address.replace("0.0.0.0", "127.0.0.1");
    for (headers, status) in [
        ("", 401),
        ("Authorization: Bearer 0123456789abcdef0124\r\n", 401),
        ("Authorization: Bearer 0123456789abcdef\r\n", 401),
        ("Authorization: Basic 0123456789abcdef0123\r\n", 401),
        ("Authorization: Bearer 0123456789abcdef0123\r\n", 200),
    ] {
        let answer = get_with(&address, "/metrics", &format!("Host: shop.example\r\n{headers}")).await;
        assert_eq!(answer.status, status, "{headers}");
        assert_eq!(answer.head.contains("www-authenticate: Bearer"), status == 401, "{answer:?}");
    }

    // A daemon that was killed leaves its socket behind. The next one takes it, and removes it at its end.
    let config = format!("[admin]\nlisten = \"unix:{}\"\n{LIMITS}", socket.display());
    let (mut killed, address) = start(&config, &redis).await;
    assert_eq!(address, format!("unix:{}", socket.display()));
    killed.end(Signal::KILL, SOON).await;
    assert!(socket.exists());
    let (mut daemon, _) = start(&config, &redis).await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&socket).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o660);
    let asked =
        ask(UnixStream::connect(&socket).await.unwrap(), "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(asked.status, 200);
    // Another daemon at the same socket refills all the same.
    let mut other = ready(&config, &redis).await;
    let refused = "another process listens there";
    eventually(SOON, async || other.lines().iter().any(|line| line.contains(refused))).await;
    for one in [&mut other, &mut daemon] {
        assert!(one.end(Signal::TERM, SOON).await.success());
    }
    assert!(!socket.exists());
}
