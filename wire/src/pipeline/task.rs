//! The task of a pipeline: it writes commands and reads replies.

use std::{io, pin::Pin, sync::Arc, time::Duration};

use futures_util::future::join;
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Sleep, sleep},
};

use super::{
    Request, SOON, Shared,
    queue::{MOST_UNANSWERED, Next, Queue},
    reply::{Reply, parse},
};
use crate::connection::{Reader, SLOW, Writer, code, open};

/// First and longest pause after a failed attempt to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Bytes for the replies to some thousand commands.
const READ_ROOM: usize = 64 * 1024;
/// Replies that complete requests at once. Their callers then send new requests while Redis works on others. Otherwise
/// all callers would wait for Redis, and then Redis for all callers.
const CHUNK: usize = 64;
/// A larger buffer is not kept after a burst.
const KEEP: usize = 256 * 1024;

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

async fn write<R: Request>(shared: &Shared<R>, mut writer: Writer) -> RedisResult<()> {
    let mut batch = Vec::new();
    let mut soon = SoonTimer::default();
    loop {
        if shared.has_later() && shared.next() != Next::Now {
            // Callers that have been answered may ask again. They get one turn.
            tokio::task::yield_now().await;
            if shared.next() != Next::Now {
                shared.do_later();
            }
        }
        match shared.next() {
            Next::NoMore if shared.lock().waiting.is_empty() => return Ok(()),
            Next::NoMore | Next::Nothing => {
                shared.filled.notified().await;
                // Other tasks that are ready now may send requests as well. They get one turn, unless work waits for this
                // write.
                if !shared.has_later() {
                    tokio::task::yield_now().await;
                }
            }
            Next::Soon if !soon.is_over() => tokio::select! {
                biased;
                () = shared.filled.notified() => tokio::task::yield_now().await,
                () = soon.over() => {}
            },
            Next::Soon | Next::Now => {
                soon = SoonTimer::default();
                shared.encode(&mut batch);
                // A write that has to wait holds up no other work.
                shared.lock().takes_later = false;
                let (written, ()) = join(send(&mut writer, &batch), async { shared.do_later() }).await;
                written?;
                shared.lock().takes_later = true;
                batch.clear();
                if batch.capacity() > KEEP {
                    batch = Vec::new();
                }
            }
        }
    }
}

async fn send(writer: &mut Writer, batch: &[u8]) -> io::Result<()> {
    writer.write_all(batch).await?;
    writer.flush().await
}

/// The timer of requests that may wait to be sent with others.
#[derive(Default)]
struct SoonTimer(Option<Pin<Box<Sleep>>>);

// === impl SoonTimer ===

impl SoonTimer {
    fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|timer| timer.is_elapsed())
    }

    /// Ends [`SOON`] after the first call.
    async fn over(&mut self) {
        self.0.get_or_insert_with(|| Box::pin(sleep(SOON))).as_mut().await;
    }
}

async fn read<R: Request>(shared: &Shared<R>, mut reader: Reader) -> RedisResult<()> {
    let mut bytes = Vec::with_capacity(READ_ROOM);
    let mut answers = Vec::new();
    loop {
        if reader.read_buf(&mut bytes).await? == 0 {
            return Err(RedisError::from((ErrorKind::Io, "Redis closed the connection")));
        }
        let mut at = 0;
        loop {
            while answers.len() < CHUNK
                && let Some((answer, length)) = parse(&bytes[at..])?
            {
                answers.push(answer);
                at += length;
            }
            if answers.is_empty() {
                break;
            }
            let full = answers.len() == CHUNK;
            complete_answered(shared, &mut answers)?;
            if full {
                tokio::task::yield_now().await;
            }
        }
        bytes.drain(..at);
        if shared.lock().closed {
            shared.filled.notify_one();
        }
    }
}

/// Completes the oldest requests with `answers`.
fn complete_answered<R: Request>(
    shared: &Shared<R>,
    answers: &mut Vec<RedisResult<Reply>>,
) -> RedisResult<()> {
    let (answered, has_room) = {
        let mut queue = shared.lock();
        let was_full = queue.waiting.len() >= MOST_UNANSWERED;
        // After more replies than commands, no later reply could be matched.
        let answered = queue
            .answer(answers.drain(..))
            .ok_or_else(|| RedisError::from((ErrorKind::Parse, "more answers than questions")))?;
        (answered, was_full && matches!(queue.next(), Next::Now | Next::Soon))
    };
    if has_room {
        shared.filled.notify_one();
    }
    let mut demoted = None;
    for (request, answer) in answered {
        if let Err(error) = &answer {
            shared.router.note_error(error, &shared.node);
            if code(error).as_deref() == Some("READONLY") {
                demoted = Some(error.clone());
            }
        }
        request.complete(answer);
    }
    // The server has become a replica. A new connection to the same name may reach its master.
    demoted.map_or(Ok(()), Err)
}
