//! The gRPC server: real responses over a socket.

use tonic::{Code, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::fixture::Fixture;

#[tokio::test]
async fn a_call_too_many_is_told_so_in_the_words_of_grpc() {
    let fixture = Fixture::start().await;
    let server = fixture.serve(fixture.command(env!("CARGO_BIN_EXE_grpc"))).await;
    let channel = Endpoint::try_from(server.url.clone()).unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel);
    for left in (0..5).rev() {
        let answer = health.check(HealthCheckRequest::default()).await.unwrap();
        let seen = answer.metadata().get("ratelimit").unwrap().to_str().unwrap();
        assert!(seen.starts_with(&format!("\"calls\";r={left};t=")), "{seen}");
    }
    let status = health.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("limit \"calls\" denies this: try again in "), "{status:?}");
    let number = |name: &str| status.metadata().get(name).unwrap().to_str().unwrap().parse::<u64>().unwrap();
    assert!((1..=12).contains(&number("retry-after")), "{status:?}");
    assert!((1..=12_000).contains(&number("grpc-retry-pushback-ms")), "{status:?}");
}
