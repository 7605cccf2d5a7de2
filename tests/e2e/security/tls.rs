//! Connections by TLS, with certificates of a test's own.

use std::time::Duration;

use topup::Client;
use topup_embedded::{Builder, RedisServer, ReservedPort};
use topup_tests::{Authority, Certificate, Cli, Daemon, Launch, Redis, SOON, eventually};

const CONFIG: &str = "[limit.api]\ncapacity = 9\nrate = \"1/60s\"\n";
const KEYED: &str = "[limit.user]\ncapacity = 9\nrate = \"1/60s\"\nkeyed = true\nshards = 16\n";

/// A Redis that speaks TLS at a port, and nothing else there.
struct TlsRedis {
    redis: Redis,
    port: ReservedPort,
}

// === impl TlsRedis ===

impl TlsRedis {
    async fn start(authority: &Authority, cert: &Certificate, asks_clients: bool) -> Self {
        Self::with(RedisServer::builder(), authority, cert, asks_clients).await
    }

    async fn with(server: Builder, authority: &Authority, cert: &Certificate, asks_clients: bool) -> Self {
        let port = ReservedPort::reserve().unwrap();
        let server = server
            .arg("--tls-port", port.number().to_string())
            .arg("--tls-ca-cert-file", authority.ca())
            .arg("--tls-cert-file", &cert.cert)
            .arg("--tls-key-file", &cert.key)
            .arg("--tls-auth-clients", if asks_clients { "yes" } else { "no" });
        Self { redis: Redis::with(server).await, port }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }
}

async fn ready(launch: Launch) -> Daemon {
    let mut daemon = launch.run();
    daemon.wait_for_line("ready", SOON).await;
    daemon
}

async fn first_refusal(url: &str) -> String {
    Client::connect(url).await.map(drop).expect_err(url).to_string()
}

/// The refusal of a server that does reply: a busy machine may need more than the second that a connection may take.
async fn refusal(url: &str) -> String {
    let in_time = async || Some(first_refusal(url).await).filter(|told| !told.contains(": within 1s: "));
    eventually(SOON, in_time).await
}

#[tokio::test]
async fn daemon_and_workers_take_by_mutual_tls() {
    let authority = Authority::new();
    let (server, client) = (
        authority.sign("server", &["127.0.0.1", "localhost"], false),
        authority.sign("client", &["worker"], false),
    );
    let redis = TlsRedis::start(&authority, &server, true).await;
    redis.redis.ask::<()>(&["CONFIG", "SET", "requirepass", "a b&?#%"]).await;
    let url = format!("rediss://:a%20b%26%3F%23%25@{}", redis.host());

    let config = format!(
        "[redis]\nurl = \"{url}\"\ntls_ca = \"{}\"\ntls_cert = \"{}\"\ntls_key = \"{}\"\n{CONFIG}",
        authority.ca(),
        client.cert,
        client.key
    );
    let _daemon = ready(Launch::new(&config)).await;
    let builder = Client::builder().deadline(SOON).tls_ca(authority.ca());
    let topup = builder.tls_cert(&client.cert, &client.key).connect(&url).await.unwrap();
    let api = topup.limit("api");
    for left in (0..9).rev() {
        assert_eq!(api.take(1).await.unwrap().remaining(), left);
    }
    assert!(!api.take(1).await.unwrap().is_allowed());
    let told = Cli::new(&["peek", "api"]).config(&config).run().await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told:?}");

    // A broken connection is opened again, by TLS.
    redis.redis.ask::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    eventually(SOON, async || api.take(1).await.is_ok_and(|decision| !decision.is_allowed())).await;

    let with = |files: &str| format!("{url}?tls_ca={}{files}", authority.ca());
    assert!(refusal(&with("")).await.contains("name one and its key with tls_cert and tls_key"));
    let strangers = Authority::new();
    let stranger = strangers.sign("client", &["worker"], false);
    let told = refusal(&with(&format!("&tls_cert={}&tls_key={}", stranger.cert, stranger.key))).await;
    assert!(told.contains("the server refuses the certificate of tls_cert"), "{told}");
    let told = refusal(&with(&format!("&tls_cert={}&tls_key={}", client.cert, stranger.key))).await;
    assert!(told.contains("is not the key of the certificate in"), "{told}");
    let told = refusal(&with(&format!("&tls_cert={0}&tls_key={0}", client.cert))).await;
    assert!(told.contains("no private key in PEM"), "{told}");
}

#[tokio::test]
async fn a_wrong_certificate_is_told_by_its_fault() {
    let authority = Authority::new();
    let ca = authority.ca();
    let other = authority.sign("other", &["redis.example"], false);
    let redis = TlsRedis::start(&authority, &other, false).await;
    let url = |ca: &str| format!("rediss://{}?tls_ca={ca}", redis.host());
    let told = refusal(&url(&ca)).await;
    assert!(told.contains("the server's certificate is not for 127.0.0.1"), "{told}");
    let told = refusal(&url("/nowhere/ca.pem")).await;
    assert!(told.contains("/nowhere/ca.pem: No such file"), "{told}");
    let stranger = Authority::new();
    let told = refusal(&url(&stranger.ca())).await;
    assert!(told.contains("no CA in") && told.contains("has signed the server's certificate"), "{told}");
    let told = refusal(&url(&other.key)).await;
    assert!(told.contains("no certificate in PEM"), "{told}");
    // The system's CAs, of which this machine may have none.
    let told = refusal(&format!("rediss://{}", redis.host())).await;
    assert!(told.contains("tls_ca"), "{told}");

    let old = authority.sign("old", &["127.0.0.1"], true);
    let redis = TlsRedis::start(&authority, &old, false).await;
    let url = format!("rediss://{}?tls_ca={ca}", redis.host());
    let told = refusal(&url).await;
    assert!(told.contains("the server's certificate has expired"), "{told}");
    let told = Cli::new(&["status", "--redis", &url]).run().await;
    assert!(told.code == Some(2) && told.stdout.contains("has expired"), "{told:?}");
    let mut daemon = Launch::new(CONFIG).env("TOPUP_REDIS_URL", &url).run();
    daemon.wait_for_line("the server's certificate has expired", SOON).await;
}

#[tokio::test]
async fn a_port_with_tls_and_one_without_are_told_apart() {
    let authority = Authority::new();
    let cert = authority.sign("server", &["127.0.0.1"], false);
    let redis = TlsRedis::start(&authority, &cert, false).await;
    let told = refusal(&format!("redis://{}", redis.host())).await;
    assert!(told.contains("write rediss://"), "{told}");
    let told = refusal(&format!("redis://:secret@{}", redis.host())).await;
    assert!(told.contains("write rediss://"), "{told}");
    let plain = Redis::tcp().await;
    let told =
        first_refusal(&format!("{}?tls_ca={}", plain.url().replace("redis:", "rediss:"), authority.ca()))
            .await;
    assert!(told.contains("write redis://"), "{told}");
}

#[tokio::test]
async fn a_cluster_is_reached_by_tls_alone() {
    let authority = Authority::new();
    let cert = authority.sign("server", &["127.0.0.1"], false);
    let mut nodes = Vec::new();
    for hash_slots in ["0 8191", "8192 16383"] {
        let bus = ReservedPort::reserve().unwrap();
        let server = RedisServer::builder()
            .arg("--cluster-enabled", "yes")
            .arg("--cluster-port", bus.number().to_string())
            .arg("--tls-cluster", "yes")
            .arg("--tls-auth-clients", "no");
        let node = TlsRedis::with(server, &authority, &cert, true).await;
        node.redis.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(nodes.len() + 1).to_string()]).await;
        let words: Vec<&str> =
            ["CLUSTER", "ADDSLOTSRANGE"].into_iter().chain(hash_slots.split(' ')).collect();
        node.redis.ask::<()>(&words).await;
        nodes.push((node, bus));
    }
    let (port, bus) = (nodes[1].0.port.number().to_string(), nodes[1].1.number().to_string());
    nodes[0].0.redis.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
    for (node, _) in &nodes {
        eventually(SOON, async || {
            let info: String = node.redis.ask(&["CLUSTER", "INFO"]).await;
            if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2") {
                Ok(())
            } else {
                Err(info)
            }
        })
        .await;
    }
    let files = format!("?tls_ca={}", authority.ca());
    let mut url = format!("rediss://{}{files}", nodes[0].0.host());
    // As mutual TLS, which the nodes ask of each other and of clients.
    url = format!("{url}&tls_cert={}&tls_key={}", cert.cert, cert.key);
    let _daemon = ready(Launch::new(KEYED).env("TOPUP_REDIS_URL", &url)).await;
    // A busy machine may need more than the second that a connection may take.
    let connect = async || Client::builder().deadline(Duration::from_secs(10)).connect(&url).await.ok();
    let topup = eventually(SOON, connect).await;
    for key in 0..40 {
        assert!(topup.limit("user").key(key.to_string()).take(1).await.unwrap().is_allowed());
    }
    for (node, _) in &nodes {
        assert!(node.redis.dbsize().await > 16);
    }
}
