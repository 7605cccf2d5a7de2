//! Connections to the admin server, within bounds of number, size and time.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{events::Taken, listener::Listener};

/// Most connections at once. Further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 64;
/// Most headers of a request.
const MOST_HEADERS: usize = 64;
/// Most bytes of a request's head.
const MOST_BYTES: usize = 16 * 1024;
/// The longest time for a request's head.
const HEAD: Duration = Duration::from_secs(5);
/// The longest life of a connection, which has one request. A stream of events lives on while they are taken.
const LONGEST: Duration = Duration::from_secs(30);
/// A pause after an error of the socket, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves all connections.
pub(super) async fn serve(listener: Listener, router: Router) {
    let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    // Ends with its task only: the semaphore is never closed.
    while let Ok(permit) = permits.clone().acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let Ok(stream) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let taken = Taken::default();
        let service = TowerToHyperService::new(router.clone().layer(Extension(taken.clone())));
        connections.spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(MOST_HEADERS);
            http.max_buf_size(MOST_BYTES).keep_alive(false);
            let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
            // A connection that breaks is of no interest.
            while timeout(LONGEST, &mut connection).await.is_err() && taken.since_last() {}
            drop(permit);
        });
    }
}
