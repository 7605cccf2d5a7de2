//! `RateLimitLayer`: limits that the response settles.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use topup::http::{RateLimitLayer, Rule};
use topup_tests::{SOON, eventually};
use tower::{Layer, ServiceExt, service_fn};

use super::super::fixture::Fixture;

/// Sends a request to a service that answers with the status and the cost in its path: `/401/7`.
async fn send(layer: &RateLimitLayer, path: &str) -> StatusCode {
    let service = service_fn(async |request: Request<()>| {
        let mut parts = request.uri().path().split('/').skip(1);
        let answer =
            Response::builder().status(parts.next().unwrap()).header("x-cost", parts.next().unwrap());
        Ok::<_, Infallible>(answer.body(Full::<Bytes>::default()).unwrap())
    });
    let request = Request::builder().uri(path).body(()).unwrap();
    layer.layer(service).oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn a_response_settles_what_its_request_has_cost() {
    let config = "[limit.login]\ncapacity = 3\nrate = \"1/d\"\n\
                  [limit.tokens]\ncapacity = 100\nrate = \"1/d\"\nmax_debt = 50\n\
                  [limit.refunded]\ncapacity = 5\nrate = \"1/d\"\non_abandon = \"refund\"\n";
    let fixture = Fixture::set(config).await;
    let left = async |limit: &str| fixture.bucket(limit).peek().await.unwrap().remaining();

    // Only failures count.
    let login = RateLimitLayer::new(&fixture.topup).limit(Rule::of("login").only_failures());
    for _ in 0..5 {
        assert_eq!(send(&login, "/200/0").await, StatusCode::OK);
        eventually(SOON, async || left("login").await == 3).await;
    }
    for tokens in [2, 1, 0] {
        assert_eq!(send(&login, "/401/0").await, StatusCode::UNAUTHORIZED);
        assert_eq!(left("login").await, tokens);
    }
    assert_eq!(send(&login, "/200/0").await, StatusCode::TOO_MANY_REQUESTS);

    // The response tells the cost. A cost beyond the bucket is debt.
    let cost = |response: &http::response::Parts| response.headers["x-cost"].to_str().ok()?.parse().ok();
    let tokens = Rule::of("tokens").cost(|_| 20).cost_of_response(cost);
    let tokens =
        RateLimitLayer::new(&fixture.topup).limit(tokens).limit(Rule::of("refunded").only(|_| false));
    for (path, expected) in [("/200/5", 95), ("/200/unknown", 75), ("/200/65", 10)] {
        assert_eq!(send(&tokens, path).await, StatusCode::OK);
        eventually(SOON, async || left("tokens").await == expected && left("refunded").await == 5).await;
    }
    assert_eq!(send(&tokens, "/200/0").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((left("tokens").await, left("refunded").await), (10, 5), "a denied request takes nothing");
    fixture.bucket("tokens").refund(10).await.unwrap();
    assert_eq!(send(&tokens, "/200/60").await, StatusCode::OK);
    eventually(SOON, async || left("tokens").await == 0).await;
    let denied = fixture.bucket("tokens").take(1).await.unwrap();
    assert!(denied.retry_after().unwrap() > std::time::Duration::from_secs(40 * 86_400), "{denied:?}");
    eventually(SOON, async || fixture.redis.ask::<Vec<String>>(&["KEYS", "*:holds"]).await.is_empty()).await;
}
