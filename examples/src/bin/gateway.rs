//! A gateway to a language model, with three limits for each API key: on requests, on tokens in and on tokens out. The
//! tokens out are known only when the answer has been streamed. A longer answer than expected leaves a debt, which time
//! repays before the next request is allowed.
//!
//! `curl -H 'x-api-key: alice' -H 'x-expected-tokens: 8' -d 'say hello to the world' http://127.0.0.1:3000/complete`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "says where it listens, and what goes wrong")]

use std::{convert::Infallible, env};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use topup::Client;

/// Tokens out of a request that names none.
const EXPECTED: u64 = 16;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let topup = topup_examples::connect().await?;
    let app = Router::new().route("/complete", post(complete)).with_state(topup);
    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// Answers a prompt as a stream of tokens.
async fn complete(State(topup): State<Client>, headers: HeaderMap, prompt: String) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(key) = text("x-api-key") else { return StatusCode::UNAUTHORIZED.into_response() };
    let expected = text("x-expected-tokens").and_then(|count| count.parse().ok()).unwrap_or(EXPECTED);
    let input = prompt.split_whitespace().count().max(1) as u64;
    let limit = |name: &str| topup.limit(name).key(key);
    let estimates = [(limit("requests"), 1), (limit("input"), input), (limit("output"), expected)];
    let mut holds = match topup.reserve_all(estimates).await {
        Ok(holds) => holds,
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    };
    if let Some(denied) = holds.decision().denied_by() {
        let seconds = holds.decision().retry_after().unwrap_or_default().as_secs() + 1;
        let message = format!("no more {} now\n", denied.limit());
        return (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, seconds.to_string())], message)
            .into_response();
    }
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut sent = 0;
        for token in model(&prompt) {
            // A caller that has left pays for what was sent.
            if sender.send(Ok::<_, Infallible>(token)).await.is_err() {
                break;
            }
            sent += 1;
        }
        // The answer ends when it is paid for.
        match holds.settle(&[1, input, sent]).await {
            Ok(settled) if settled.iter().any(|settled| settled.uncharged > 0) => {
                eprintln!("not paid: {settled:?}")
            }
            Ok(_) => {}
            Err(error) => eprintln!("not settled: {error}"),
        }
    });
    Body::from_stream(ReceiverStream::new(receiver)).into_response()
}

/// The model knows one thing to say: what it has heard, loudly.
fn model(prompt: &str) -> impl Iterator<Item = String> {
    prompt.split_whitespace().map(|word| word.to_uppercase() + " ")
}
