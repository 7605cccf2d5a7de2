//! A gRPC server that limits the calls of each address. Its service is gRPC's own health check, which needs no code
//! generator.
//!
//! `LISTEN` is the address of its socket.

#![allow(clippy::print_stdout, reason = "says where it listens")]

use std::env;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use topup::http::{RateLimitLayer, Rule, key};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let topup = topup_examples::connect().await?;
    let limits = RateLimitLayer::new(&topup).limit(Rule::of("calls").key(key::peer_ip()));
    let (_reporter, health) = tonic_health::server::health_reporter();

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:50051".to_owned());
    let listener = TcpListener::bind(&listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let connections = TcpListenerStream::new(listener);
    Server::builder().layer(limits).add_service(health).serve_with_incoming(connections).await?;
    Ok(())
}
