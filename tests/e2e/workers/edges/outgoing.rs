//! `WaitLayer`: requests that go out in their time.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use topup::OnOutage;
use topup::http::{CallError, PerHost, WaitLayer};
use topup_tests::{Redis, clock};
use tower::{Layer, ServiceExt, service_fn};

use super::{
    super::fixture::{Fixture, briefly_patient},
    CONFIG,
};

/// A host: counts what it is sent, and asks at first to be left alone for so many seconds.
#[derive(Clone)]
struct Host {
    sent: Arc<AtomicUsize>,
    retry_after: &'static str,
}

impl Host {
    fn asking_for(retry_after: &'static str) -> Self {
        Self { sent: Arc::default(), retry_after }
    }

    async fn send<K>(&self, layer: &WaitLayer<K>) -> Result<StatusCode, CallError<Infallible>>
    where
        K: topup::http::OutgoingKey<Request<()>> + Send + Sync + 'static,
    {
        let host = self.clone();
        let service = service_fn(move |_: Request<()>| {
            let mut answer = Response::new(());
            if host.sent.fetch_add(1, Relaxed) == 0 {
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                answer.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static(host.retry_after));
            }
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        let request = Request::builder().uri("http://example.org/").body(()).unwrap();
        layer.layer(service).oneshot(request).await.map(|answer| answer.status())
    }

    fn sent(&self) -> usize {
        self.sent.load(Relaxed)
    }
}

#[tokio::test]
async fn a_pause_holds_for_every_layer_of_the_process_and_for_its_bucket_only() {
    let fixture = Fixture::set(CONFIG).await;
    let (one, other) = (WaitLayer::new(&fixture.topup, "api"), WaitLayer::new(&fixture.topup.clone(), "api"));
    let elsewhere = WaitLayer::new(&fixture.topup, "user").key(PerHost);
    let host = Host::asking_for("1");
    let begun = clock::now();
    assert_eq!(host.send(&one).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(host.send(&elsewhere).await.unwrap(), StatusCode::OK);
    assert!(clock::now() - begun < 1_000_000, "another bucket is not paused");
    assert_eq!(host.send(&other).await.unwrap(), StatusCode::OK);
    assert!(clock::now() - begun >= 1_000_000, "{} µs", clock::now() - begun);
}

#[tokio::test]
async fn a_pause_longer_than_the_wait_is_denied_at_once_and_nothing_is_sent() {
    let fixture = Fixture::set(CONFIG).await;
    let layer = WaitLayer::new(&fixture.topup, "user").key(PerHost).wait(Duration::from_secs(5));
    let host = Host::asking_for("30");
    assert_eq!(host.send(&layer).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    let Err(CallError::Denied(denied)) = host.send(&layer).await else { panic!("not denied") };
    assert_eq!((denied.limit(), denied.key(), host.sent()), ("user", Some("example.org"), 1));
    let wait = denied.retry_after().unwrap();
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_secs(30), "{wait:?}");
    assert!(denied.message().starts_with("example.org asks to be left alone for "), "{denied}");
    assert_eq!(fixture.bucket("user").key("example.org").peek().await.unwrap().remaining(), 1);
}

#[tokio::test]
async fn a_host_cannot_ask_for_ever() {
    let fixture = Fixture::set(CONFIG).await;
    let layer = WaitLayer::new(&fixture.topup, "api").longest_pause(Duration::from_millis(100));
    let host = Host::asking_for("99999999999999999999");
    assert_eq!(host.send(&layer).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(host.send(&layer).await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_waits_for_its_token_and_no_longer_than_it_may() {
    let fixture = Fixture::set(CONFIG).await;
    let host = Host::asking_for("0");
    let (soon, one) = (WaitLayer::new(&fixture.topup, "soon"), WaitLayer::new(&fixture.topup, "one"));
    let begun = clock::now();
    for _ in 0..3 {
        host.send(&soon).await.unwrap();
    }
    assert!(clock::now() - begun >= 380_000, "two more tokens, of five a second");
    host.send(&one).await.unwrap();
    let denied = host.send(&one).await;
    assert!(matches!(&denied, Err(CallError::Denied(denied)) if denied.limit() == "one"), "{denied:?}");
    assert_eq!(host.sent(), 4);
}

#[tokio::test]
async fn an_outage_comes_to_what_the_layer_is_told() {
    let mut fixture = Fixture::on(Redis::tcp().await, CONFIG).await;
    let topup = briefly_patient(fixture.redis.url()).await;
    fixture.redis.server.kill().unwrap();
    let host = Host::asking_for("0");
    let lenient = WaitLayer::new(&topup, "api");
    let careful = WaitLayer::new(&topup, "api").on_outage(OnOutage::Deny);
    host.send(&lenient).await.unwrap();
    let denied = host.send(&careful).await;
    assert!(
        matches!(&denied, Err(CallError::Denied(denied)) if denied.outage_reason().is_some()),
        "{denied:?}"
    );
    assert_eq!((host.sent(), topup.undecided()), (1, 2));
}
