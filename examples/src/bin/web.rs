//! A web server with three limits: on all requests, on those of each address, and on those of each API key.
//!
//! `TRUSTED_PROXIES` lists the networks of proxies whose `X-Forwarded-For` is trusted. `LISTEN` is the address of the
//! socket.

#![allow(clippy::print_stdout, reason = "says where it listens")]

use std::{env, net::SocketAddr};

use axum::{Router, routing::get};
use tokio::net::TcpListener;
use topup::http::{RateLimitLayer, Rule, key};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let topup = topup_examples::connect().await?;
    let trusted = env::var("TRUSTED_PROXIES").unwrap_or_else(|_| "10.0.0.0/8".to_owned());
    let proxies = key::Proxies::networks(trusted.split(','))?;

    let everywhere = RateLimitLayer::new(&topup).limit("api").limit(
        Rule::of("ip")
            .key(key::client_ip(proxies))
            // A search is as much work as five other requests.
            .cost(|request| if request.uri.path() == "/search" { 5 } else { 1 }),
    );
    let by_plan = RateLimitLayer::new(&topup)
        .limit(Rule::of("plan").key(key::header("x-api-key")).message("your plan has three exports an hour"));

    let app = Router::new()
        .route("/export", get(async || "exported\n").layer(by_plan))
        .route("/search", get(async || "found\n"))
        .route("/", get(async || "hello\n"))
        .layer(everywhere);

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
