//! The crawler, against a server that records the instants of its requests.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use topup_tests::clock;

use crate::fixture::{Fixture, lines, run};

/// The least time between two requests in µs: two a second, less the jitter of the network.
const APART: u64 = 400_000;

type Visits = Arc<Mutex<Vec<u64>>>;

/// A host: its URL, and the instants of its requests. Its first `busy` responses ask for a pause.
async fn host(busy: usize) -> (String, Visits) {
    let visits = Visits::default();
    let page = async move |State(visits): State<Visits>| -> Response {
        let mut visits = visits.lock().unwrap();
        visits.push(clock::now());
        if visits.len() <= busy {
            return (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "2")]).into_response();
        }
        "a page".into_response()
    };
    let app = Router::new().route("/{page}", get(page)).with_state(visits.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, visits)
}

fn between(visits: &Visits) -> Vec<u64> {
    visits.lock().unwrap().windows(2).map(|two| two[1] - two[0]).collect()
}

#[tokio::test]
async fn each_host_is_asked_in_its_own_time() {
    let fixture = Fixture::start().await;
    let hosts = [host(0).await, host(0).await];
    let pages = hosts.iter().flat_map(|(url, _)| (0..3).map(move |i| format!("{url}/{i}")));
    let mut crawler = fixture.command(env!("CARGO_BIN_EXE_crawler"));
    crawler.args(pages.clone());
    let begun = clock::now();
    let ended = run(crawler, "").await;
    let mut seen: Vec<_> = pages.map(|page| format!("200 OK, 6 bytes: {page}")).collect();
    seen.sort();
    assert_eq!(lines(&ended.stdout), seen, "{ended:?}");
    for (_, visits) in &hosts {
        assert!(between(visits).iter().all(|apart| *apart >= APART), "{:?}", between(visits));
    }
    let firsts: Vec<_> = hosts.iter().map(|(_, visits)| visits.lock().unwrap()[0]).collect();
    assert!(firsts.iter().all(|first| *first < begun + APART * 2), "the hosts do not wait for one another");
}

#[tokio::test]
async fn a_host_that_asks_to_be_left_alone_is() {
    let fixture = Fixture::start().await;
    let (url, visits) = host(1).await;
    let mut crawler = fixture.command(env!("CARGO_BIN_EXE_crawler"));
    crawler.args([format!("{url}/a"), format!("{url}/b")]);
    let ended = run(crawler, "").await;
    let seen = ["a", "b"].map(|page| format!("200 OK, 6 bytes: {url}/{page}"));
    assert_eq!(lines(&ended.stdout), seen, "{ended:?}");
    let between = between(&visits);
    assert_eq!(between.len(), 2, "one refused, two answered: {between:?}");
    assert!(between[0] >= 1_900_000, "no request for two seconds: {between:?}");
    assert!(between[1] >= APART || between[0] >= 2_000_000, "{between:?}");
}
