//! `PermitLayer`: a permit is held until the body has ended.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::{BodyExt, Full};
use topup::http::{PermitLayer, Rule, key};
use topup_tests::{SOON, eventually};
use tower::{Layer, ServiceExt, service_fn};

use super::super::fixture::Fixture;

const CONFIG: &str = "[limit.all]\nalgorithm = \"concurrency\"\nlimit = 1\n\
                      [limit.each]\nkeyed = true\nalgorithm = \"concurrency\"\nlimit = 1\n";

#[tokio::test]
async fn a_request_holds_its_permit_until_the_body_of_its_response_has_ended() {
    let fixture = Fixture::set(CONFIG).await;
    let service =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("served"))));
    let all = PermitLayer::new(&fixture.topup, "all");
    let request = || Request::builder().uri("/").body(()).unwrap();
    let send = async |layer: &PermitLayer, request| layer.layer(service).oneshot(request).await.unwrap();

    let first = send(&all, request()).await;
    assert_eq!(first.status(), StatusCode::OK);
    let denied = send(&all, request()).await;
    assert_eq!(
        (denied.status(), &denied.headers()[RETRY_AFTER]),
        (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
    );
    assert!(denied.into_body().collect().await.unwrap().to_bytes().starts_with(b"limit \"all\" denies this"));
    let patient = all.clone().patience(SOON);
    let waits = tokio::spawn({
        let service = patient.layer(service);
        async move { service.oneshot(request()).await.unwrap().status() }
    });
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes(), "served");
    assert_eq!(waits.await.unwrap(), StatusCode::OK);
    eventually(SOON, async || fixture.bucket("all").peek().await.unwrap().remaining() == 1).await;

    let each = PermitLayer::new(&fixture.topup, Rule::of("each").key(key::header("x-user")));
    let of = |user: &str| Request::builder().uri("/").header("x-user", user).body(()).unwrap();
    let held = send(&each, of("a")).await;
    assert_eq!(send(&each, of("a")).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(send(&each, of("b")).await.status(), StatusCode::OK);
    drop(held);
    let each = each.patience(Duration::from_secs(10));
    assert_eq!(send(&each, of("a")).await.status(), StatusCode::OK);
}
