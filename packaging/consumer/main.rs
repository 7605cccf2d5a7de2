//! A server with limits for each user and each address. `scripts/test-packages` builds it against the packaged crates.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use topup::http::{RateLimitLayer, Rule, key};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let topup = topup::Client::connect(&std::env::var("TOPUP_REDIS_URL")?).await?;
    let limits = RateLimitLayer::new(&topup)
        .limit(Rule::of("ip").key(key::peer_ip()))
        .limit(Rule::of("user").key(key::header("x-user")));
    let app = Router::new().route("/", get(async || "hello\n")).layer(limits);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
