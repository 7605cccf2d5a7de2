//! The page of the admin server without a browser: who gets it, what its stream tells, and who may change something.

#![allow(clippy::panic, reason = "an answer of another shape fails the test")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};
use topup_tests::{Cli, Daemon, Redis, SOON, eventually};

const TOKEN: &str = "0123456789abcdef0123";
const LIMITS: &str = "[limit.api]\ncapacity = 3\nrate = \"1/h\"\n[limit.user]\nkeyed = true\ncapacity = 5\nrate = \"1/h\"\n\
                      [limit.off]\ncapacity = 4\nrate = \"1/h\"\nmode = \"off\"\n";

/// A daemon with an admin server, and a file with its token.
struct Server {
    daemon: Daemon,
    address: String,
    config: String,
    _folder: tempfile::TempDir,
}

/// A stream of events.
struct Events {
    stream: BufReader<TcpStream>,
    /// The last news of each limit.
    limits: BTreeMap<String, Value>,
}

// === impl Server ===

impl Server {
    async fn start(redis: &Redis, listen: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let config = format!("[admin]\nlisten = \"{listen}\"\ntoken_file = {token:?}\n{LIMITS}");
        let mut daemon = Daemon::spawn(&config, redis);
        let line = daemon.wait_for_line("the admin server listens on ", SOON).await;
        let address = line.split("listens on ").nth(1).unwrap().trim().replace("0.0.0.0", "127.0.0.1");
        // Either line may be the first.
        if !daemon.lines().iter().any(|line| line.contains("ready: ")) {
            daemon.wait_for_line("ready: ", SOON).await;
        }
        Self { daemon, address, config, _folder: folder }
    }

    /// Sends a request with these `headers`, each with its line end.
    async fn open(&self, line: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n{body}", self.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn get(&self, path: &str) -> (u16, String, String) {
        self.ask(&format!("GET {path}"), "", "").await
    }

    /// The status, the head and the body of an answer.
    async fn ask(&self, line: &str, headers: &str, body: &str) -> (u16, String, String) {
        let mut stream = self.open(line, headers, body).await;
        let mut answer = Vec::new();
        timeout(SOON, stream.read_to_end(&mut answer)).await.expect("an answer").unwrap();
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }

    /// Asks for a change, with `token`.
    async fn post(&self, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let headers = format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\nAuthorization: Bearer {token}\r\n",
            body.len()
        );
        let (status, _, answer) = self.ask(&format!("POST {path}"), &headers, &body).await;
        (status, serde_json::from_str(&answer).unwrap_or(Value::String(answer)))
    }

    async fn events(&self) -> Events {
        let stream = BufReader::new(self.open("GET /events", "", "").await);
        let mut events = Events { stream, limits: BTreeMap::new() };
        while !events.line().await.is_empty() {}
        events
    }
}

// === impl Events ===

impl Events {
    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(SOON, self.stream.read_line(&mut line)).await.expect("a line").unwrap();
        assert!(line.ends_with('\n'), "the stream ended");
        line.trim_end().to_owned()
    }

    /// The data of the next event with this name.
    async fn next(&mut self, name: &str) -> Value {
        let wanted = format!("event: {name}");
        while self.line().await != wanted {}
        serde_json::from_str(self.line().await.strip_prefix("data: ").expect("data")).unwrap()
    }

    /// The next news, as they are told, and with all limits in the report as the page puts them there.
    async fn news(&mut self) -> (Value, Value) {
        let news = self.next("news").await;
        if news["whole"] == true {
            self.limits.clear();
        }
        for name in news["gone"].as_array().unwrap() {
            assert!(self.limits.remove(name.as_str().unwrap()).is_some(), "{news}");
        }
        for limit in news["limits"].as_array().unwrap() {
            self.limits.insert(limit["name"].as_str().unwrap().to_owned(), limit.clone());
        }
        let mut all = news.clone();
        if all["report"].is_object() {
            all["report"]["limits"] = self.limits.values().cloned().collect();
        }
        (news, all)
    }

    /// The first news that `is` right.
    async fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        let first = async {
            loop {
                let (_, news) = self.news().await;
                if is(&news) {
                    return news;
                }
            }
        };
        timeout(SOON, first).await.expect("such news")
    }
}

#[tokio::test]
async fn the_page_is_locked_up_and_its_stream_tells_what_happens() {
    let redis = Redis::start().await;
    let server = Server::start(&redis, "127.0.0.1:0").await;
    for path in ["/", "/page/main.js", "/page/page.css", "/page/icon.svg"] {
        let (status, head, body) = server.get(path).await;
        assert!(status == 200 && !body.is_empty(), "{path}: {head}");
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for"]
        {
            assert!(head.contains(part), "{path}: no {part} in {head}");
        }
        assert!(head.contains("nosniff") && head.contains("no-store") && !head.contains("unsafe"), "{head}");
        assert!(!head.contains("access-control"), "{head}");
    }
    for path in ["/page/", "/page/../main.rs", "/page/..%2f..%2fCargo.toml", "/page/index"] {
        assert_eq!(server.get(path).await.0, 404, "{path}");
    }
    let (_, head, _) = server.get("/limits").await;
    assert!(
        head.contains("default-src 'none'; frame-ancestors 'none'") && !head.contains("script-src"),
        "{head}"
    );

    let mut events = server.events().await;
    assert_eq!(events.next("past").await["step_s"], 5);
    for _ in 0..5 {
        Cli::new(&["take", "api"]).redis(&redis).run().await;
    }
    let news = events.until(|news| news["report"]["limits"][0]["counts"]["denied"] == 2).await;
    assert_eq!(news["report"]["health"], "healthy");
    assert_eq!((&news["report"]["limits"][0]["tokens"], &news["may_act"]), (&json!(0), &json!(true)));
    assert!(news["report"]["limits"][1]["tokens"].is_null(), "Redis is not asked for a limit that is off");
    // News tell what has changed, and a page that is opened then gets everything.
    let (told, all) = timeout(SOON, events.news()).await.unwrap();
    assert!(told["whole"] == false && told["limits"].as_array().unwrap().len() < 3, "{told}");
    assert_eq!(all["report"]["limits"].as_array().unwrap().len(), 3);
    let mut later = server.events().await;
    let (told, _) = timeout(SOON, later.news()).await.unwrap();
    assert_eq!((&told["whole"], told["limits"].as_array().unwrap().len()), (&json!(true), 3));
    drop(later);
    // It has a past, too.
    eventually(SOON, async || {
        let past = server.events().await.next("past").await;
        past["limits"]["api"].as_array().is_some_and(|samples| !samples.is_empty())
    })
    .await;

    server.daemon.reload(&server.config.replace("capacity = 3", "capacity = 6"));
    let news = events.until(|news| news["config"]["changes"][0] == "limit api: capacity 3 -> 6").await;
    assert_eq!(news["config"]["problems"], json!([]));
    server.daemon.reload(&format!("{}\ncapcity = 3\n", server.config));
    let news = events.until(|news| news["config"]["refused_since"].is_string()).await;
    let problem = news["config"]["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("config.toml:") && problem.contains("capcity"), "{problem}");
    assert_eq!(news["config"]["changes"][0], "limit api: capacity 3 -> 6", "the last reload stays");
}

#[tokio::test]
async fn open_streams_are_bounded_and_a_place_comes_free() {
    let redis = Redis::start().await;
    let server = Server::start(&redis, "127.0.0.1:0").await;
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut events = server.events().await;
        events.next("news").await;
        streams.push(events);
    }
    let (status, head, body) = server.get("/events").await;
    assert!(status == 503 && head.contains("retry-after") && body.contains("16 pages"), "{head}{body}");
    assert_eq!(server.get("/healthz").await.0, 200);
    drop(streams.pop());
    eventually(SOON, async || {
        let mut events = BufReader::new(server.open("GET /events", "", "").await);
        let mut line = String::new();
        events.read_line(&mut line).await.unwrap();
        line.contains("200")
    })
    .await;
}

#[tokio::test]
async fn only_the_token_changes_something() {
    let redis = Redis::start().await;
    let server = Server::start(&redis, "127.0.0.1:0").await;
    for _ in 0..3 {
        Cli::new(&["take", "api"]).redis(&redis).run().await;
    }
    let (api, alice) = (json!({"limit": "api"}), json!({"limit": "user", "key": "alice"}));
    for token in ["", "0123456789abcdef0124", "0123456789abcdef"] {
        for path in ["/actions/reset", "/actions/pause", "/actions/resume"] {
            assert_eq!(server.post(path, token, &api).await.0, 401, "{path}");
        }
    }
    // Requests that a form of another site could send.
    for headers in ["Content-Length: 2\r\n", "Content-Length: 2\r\nContent-Type: text/plain\r\n"] {
        assert_eq!(server.ask("POST /actions/reset", headers, "{}").await.0, 401);
        let with_token = format!("{headers}Authorization: Bearer {TOKEN}\r\n");
        assert_eq!(server.ask("POST /actions/reset", &with_token, "{}").await.0, 415);
    }
    let long = json!({"limit": "x".repeat(5_000)});
    assert_eq!(server.post("/actions/reset", TOKEN, &long).await.0, 413);
    assert_eq!(server.get("/actions/reset").await.0, 405);
    assert_eq!(server.get("/buckets/api").await.2.matches("\"tokens\":0").count(), 1);
    for (body, status, word) in [
        (json!({"limit": "nobody"}), 404, "no limit nobody"),
        (json!({"limit": "user"}), 400, "is keyed"),
        (json!({"limit": "api", "key": "alice"}), 400, "one bucket for all"),
        (json!({"limit": "api", "all": true}), 400, "unknown field"),
        (json!([]), 400, "the body"),
    ] {
        let (answered, said) = server.post("/actions/reset", TOKEN, &body).await;
        assert!(answered == status && said.to_string().contains(word), "{body}: {answered} {said}");
    }
    let (status, bucket) = server.post("/actions/reset", TOKEN, &api).await;
    assert_eq!((status, &bucket["tokens"], &bucket["would_deny"]), (200, &json!(3), &json!(false)));
    let bucket = server.get("/buckets/api").await.2;
    assert!(bucket.contains("\"tokens\":3"), "{bucket}");

    let pause = json!({"limit": "user", "key": "alice", "for_s": 60});
    let (status, paused) = server.post("/actions/pause", TOKEN, &pause).await;
    assert!(status == 200 && paused["left_s"].as_f64().unwrap() > 1.0, "{paused}");
    let peek = async || server.get("/buckets/user?key=alice&x=1").await.2;
    eventually(SOON, async || peek().await.contains("\"paused\":true")).await;
    assert_eq!(server.post("/actions/resume", TOKEN, &alice).await.1["changed"], true);
    eventually(SOON, async || peek().await.contains("\"paused\":false")).await;
    for time in [json!(0), json!(-1), json!("x"), json!(1e300)] {
        let pause = json!({"limit": "api", "for_s": time});
        assert_eq!(server.post("/actions/pause", TOKEN, &pause).await.0, 400, "{pause}");
    }
    assert_eq!(redis.ask::<Vec<String>>(&["KEYS", "*nobody*"]).await, [""; 0]);

    // Other machines see the page, and nothing behind it.
    let remote = Server::start(&redis, "0.0.0.0:0").await;
    for (path, status) in
        [("/", 200), ("/page/main.js", 200), ("/events", 401), ("/limits", 401), ("/buckets/api", 401)]
    {
        assert_eq!(remote.get(path).await.0, status, "{path}");
    }
}
