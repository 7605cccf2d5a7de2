//! A limit in shadow at the edges: nobody who calls is stopped, also not by one of several.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::Full;
use topup::{
    Client, Count,
    http::{RateLimitLayer, WaitLayer},
};
use topup_tests::clock;
use tower::{Layer, ServiceExt, service_fn};

use super::super::fixture::Fixture;

const CONFIG: &str = "[limit.new]\ncapacity = 1\nrate = \"1/h\"\nmode = \"shadow\"\n[limit.firm]\ncapacity = 4\nrate = \"1/h\"\n";

#[topup::limited(limit = "firm", client = topup, on_outage = "deny")]
#[topup::limited(limit = "new", wait = "2s")]
async fn called(topup: &Client) -> Result<(), topup::Denied> {
    Ok(())
}

#[tokio::test]
async fn the_attribute_and_the_layers_go_on_and_count_it() {
    let fixture = Fixture::set(CONFIG).await;
    let begun = clock::now();
    let service = || {
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("served"))))
    };
    let layer = RateLimitLayer::new(&fixture.topup).limit("new").limit("firm");
    for _ in 0..2 {
        let answer = layer.layer(service()).oneshot(Request::new(())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(!answer.headers().contains_key(RETRY_AFTER), "{answer:?}");
        assert!(answer.headers()["ratelimit"].to_str().unwrap().contains("\"new\";r=0"), "{answer:?}");
    }
    let polite = WaitLayer::new(&fixture.topup, "new").layer(service());
    assert!(polite.oneshot(Request::new(())).await.is_ok());
    for _ in 0..2 {
        called(&fixture.topup).await.unwrap();
    }
    assert!(clock::now() - begun < 30_000_000, "nobody waits for a token");
    assert!(called(&fixture.topup).await.is_err(), "the one that is enforced denies");
    let counts = fixture.topup.counts("new");
    assert_eq!((counts.get(Count::Allowed), counts.get(Count::Denied)), (1, 0));
    assert!(counts.get(Count::WouldDeny) >= 4, "{counts:?}");
    let firm = fixture.topup.counts("firm");
    assert_eq!((firm.get(Count::Denied), firm.get(Count::WouldDeny)), (1, 0));
}
