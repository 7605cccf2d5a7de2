//! Observers of a daemon: scrapes of `/metrics` and open pages.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    task::JoinSet,
    time::interval,
};
use topup_lab::clock::Stopwatch;

/// Open pages.
pub(super) const PAGES: usize = 4;
/// Between two scrapes. Prometheus itself asks each 15 s or later.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);

/// The replies to the observers.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) scrapes: AtomicU64,
    pub(super) scrape_micros: AtomicU64,
    pub(super) page_bytes: AtomicU64,
}

/// Observers, until the set is dropped. One that ends has failed.
pub(super) fn observe(socket: &Path, observed: &Arc<Observed>) -> JoinSet<anyhow::Result<()>> {
    let mut observers = JoinSet::new();
    let (path, seen) = (socket.to_owned(), observed.clone());
    observers.spawn(async move {
        let mut turns = interval(SCRAPE_EVERY);
        loop {
            turns.tick().await;
            let watch = Stopwatch::start();
            ensure!(get(&path, "/metrics").await?.contains("# EOF"), "/metrics is not whole");
            seen.scrape_micros.fetch_add(watch.elapsed().as_micros() as u64, Relaxed);
            seen.scrapes.fetch_add(1, Relaxed);
        }
    });
    for _ in 0..PAGES {
        let (path, seen) = (socket.to_owned(), observed.clone());
        observers.spawn(async move { read_events(path, &seen).await });
    }
    observers
}

/// Ends `observers`.
///
/// # Errors
/// When one has ended before.
pub(super) async fn ended(mut observers: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    match observers.try_join_next() {
        Some(ended) => ended?.context("an observer"),
        None => Ok(()),
    }
}

/// Reads what a page is told, for ever.
async fn read_events(socket: PathBuf, seen: &Observed) -> anyhow::Result<()> {
    get(&socket, "/").await?;
    let mut stream = ask(&socket, "/events").await?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        ensure!(read > 0, "the daemon ended a page's events");
        seen.page_bytes.fetch_add(read as u64, Relaxed);
    }
}

/// The reply to a GET.
pub(super) async fn get(socket: &Path, path: &str) -> anyhow::Result<String> {
    let mut reply = String::new();
    ask(socket, path).await?.read_to_string(&mut reply).await?;
    ensure!(reply.starts_with("HTTP/1.1 200 "), "{path}: {}", reply.lines().next().unwrap_or("no reply"));
    Ok(reply)
}

async fn ask(socket: &Path, path: &str) -> anyhow::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket).await.context("the admin server")?;
    // As Prometheus asks.
    let accept = "application/openmetrics-text; version=1.0.0";
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}
