//! Fetches pages, all hosts at once, and each host at the rate of `[limit.crawl]`, however many crawlers run. A host that
//! answers 429 gets the pause that it asks for.
//!
//! `crawler http://example.org/a http://example.org/b`

#![allow(clippy::print_stdout, reason = "says what it fetches")]

use std::env;

use reqwest::{Client, Method, Request, StatusCode, Url};
use tokio::task::JoinSet;
use topup::http::{PerHost, WaitLayer};
use tower::{Layer, Service, ServiceExt};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let topup = topup_examples::connect().await?;
    let polite = WaitLayer::new(&topup, "crawl").key(PerHost).layer(Client::new());

    let mut pages = JoinSet::new();
    for page in env::args().skip(1) {
        let (page, mut polite) = (page.parse::<Url>()?, polite.clone());
        pages.spawn(async move {
            loop {
                let request = Request::new(Method::GET, page.clone());
                let answer = polite.ready().await?.call(request).await?;
                // The next request waits for the host's pause.
                if answer.status() != StatusCode::TOO_MANY_REQUESTS {
                    let (status, bytes) = (answer.status(), answer.bytes().await?.len());
                    println!("{status}, {bytes} bytes: {page}");
                    return anyhow::Ok(());
                }
            }
        });
    }
    while let Some(fetched) = pages.join_next().await {
        fetched??;
    }
    Ok(())
}
