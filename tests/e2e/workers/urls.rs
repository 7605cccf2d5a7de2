//! Where a client connects to, and where it cannot.

use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use topup::{Client, Error};
use topup_tests::{Redis, SOON, Stalls, clock};

use super::fixture::ready;

const CONFIG: &str = "[limit.api]\ncapacity = 9\nrate = \"1/60s\"\n";

/// A first answer may take two seconds; the rest is for a busy machine.
const AT_MOST: u64 = 4_000_000;

#[tokio::test]
async fn every_form_of_url_leads_to_the_same_bucket() {
    let redis = Redis::tcp().await;
    let _daemon = ready(CONFIG, &redis).await;
    let socket = redis.server.socket();
    let socket = socket.to_str().unwrap();
    let urls = [
        redis.url().to_owned(),
        format!("{}/0", redis.url().trim_end_matches('/')),
        format!("unix://{socket}"),
        format!("unix://{socket}?db=0"),
        format!("redis+unix://{socket}"),
    ];
    for (url, remaining) in urls.iter().zip([8, 7, 6, 5, 4]) {
        let connected = Client::builder().deadline(SOON).connect(url).await;
        let topup = connected.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(topup.limit("api").take(1).await.unwrap().remaining(), remaining, "{url}");
    }
    let elsewhere = Client::connect(&format!("unix://{socket}?db=1")).await.unwrap();
    assert!(matches!(elsewhere.limit("api").take(1).await, Err(Error::NothingPublished { .. })));
}

#[tokio::test]
async fn a_url_of_something_else_is_refused() {
    for url in ["", "http://127.0.0.1", "127.0.0.1:6379", "redis://127.0.0.1/first", "unix:relative"] {
        let error = Client::connect(url).await.map(drop).expect_err(url);
        assert!(!error.is_transient(), "{url}: {error}");
    }
}

#[tokio::test]
async fn nothing_there_is_told_at_once() {
    // Bound and not listening: nobody else gets this port, and whoever connects is refused.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let tcp = format!("redis://{}", silent.local_addr().unwrap());
    let stalls = Stalls::watch();
    for url in [tcp.as_str(), "unix:///nowhere/redis.sock"] {
        let sent = clock::now();
        let error = Client::connect(url).await.map(drop).expect_err(url);
        assert!(clock::now() - sent < AT_MOST + stalls.worst(), "{url}");
        assert!(error.is_transient(), "a Redis may appear there: {error}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_long() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let (sent, stalls) = (clock::now(), Stalls::watch());
    let error =
        Client::builder().deadline(Duration::from_millis(10)).connect(&url).await.map(drop).unwrap_err();
    assert!(clock::now() - sent < AT_MOST + stalls.worst());
    assert!(error.is_transient(), "{error}");
}
