//! The task of a pipeline: it connects, and serves one connection after the other.

use std::{sync::Arc, time::Duration};

use redis::RedisResult;
use tokio::time::sleep;

use super::{
    Request, Shared,
    queue::{Next, Queue},
    read::read,
    write::write,
};
use crate::connection::{Reader, SLOW, Writer, open};

/// First and longest pause after a failed attempt to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// Runs until the pipeline is dropped. After a break, the next request opens a new connection.
pub(super) async fn run<R: Request>(shared: Arc<Shared<R>>) {
    let _end = End(shared.clone());
    let mut backoff = BACKOFF.0;
    loop {
        // Any request without a connection opens one.
        match shared.next() {
            Next::NoMore => return,
            Next::Nothing => shared.filled.notified().await,
            Next::Soon | Next::Now => {
                let connected = async {
                    shared.router.check_node(&shared.node).await?;
                    open(shared.node.endpoint()).await
                };
                match connected.await {
                    Ok((reader, writer)) => {
                        backoff = BACKOFF.0;
                        match serve(&shared, reader, writer).await {
                            Ok(()) => return,
                            Err(error) => shared.fail(&error),
                        }
                    }
                    Err(error) => {
                        shared.fail(&error);
                        if shared.node.endpoint().is_in_memory() {
                            continue;
                        }
                        sleep(backoff).await;
                        backoff = (2 * backoff).min(BACKOFF.1);
                    }
                }
            }
        }
    }
}

/// Drops all requests when the task ends, also with its runtime. A request may own what owns the pipeline.
struct End<R: Request>(Arc<Shared<R>>);

impl<R: Request> Drop for End<R> {
    fn drop(&mut self) {
        let queue = {
            let mut queue = self.0.lock();
            let closed = queue.closed;
            std::mem::replace(&mut *queue, Queue { closed, ..Queue::default() })
        };
        // Without the lock: the last request may end the pipeline.
        drop(queue);
    }
}

/// Serves one connection until it breaks, or (`Ok`) the pipeline is dropped and all replies have come.
async fn serve<R: Request>(shared: &Shared<R>, reader: Reader, writer: Writer) -> RedisResult<()> {
    shared.lock().takes_later = true;
    tokio::select! {
        // All three are polled each time, in an order that is the same in each run of a test.
        biased;
        ended = write(shared, writer) => ended,
        ended = read(shared, reader) => ended,
        never = refresh_if_silent(shared) => never,
    }
}

/// Refreshes the map of the cluster every second without a reply, since the node may have been replaced. Never ends.
async fn refresh_if_silent<R: Request, T>(shared: &Shared<R>) -> T {
    let mut before = 0;
    loop {
        sleep(SLOW).await;
        let (answered, waits) = {
            let queue = shared.lock();
            (queue.answered, !queue.waiting.is_empty())
        };
        if waits && answered == before {
            shared.router.refresh_soon();
        }
        before = answered;
    }
}
