//! The task that carries a pipeline's commands to Redis and the answers back.

use std::{pin::Pin, sync::Arc, time::Duration};

use redis::{ErrorKind, RedisError, RedisResult};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Sleep, sleep, timeout},
};

use super::{
    MOST_UNANSWERED, Next, Request, SOON, Shared,
    reply::{Reply, parse},
    socket::{Reader, Writer, connect},
};
use crate::connection::{CONNECT_TIMEOUT, SLOW};

/// Between attempts to connect in vain: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Room for the answers to some thousand commands.
const READ_ROOM: usize = 64 * 1024;
/// So many answers are handed out at once: those who get them ask again while Redis works on what was asked by others,
/// instead of all waiting for Redis, and then Redis for all.
const CHUNK: usize = 64;
/// A buffer grown by a burst is not kept larger than this.
const KEEP: usize = 256 * 1024;

/// Carries until the pipeline is dropped. A connection that breaks is made anew with the next request.
pub(super) async fn run<R: Request>(shared: Arc<Shared<R>>) {
    let mut backoff = BACKOFF.0;
    loop {
        // What is asked while nobody is connected is worth a connection.
        match shared.next() {
            Next::NoMore => return,
            Next::Nothing => shared.filled.notified().await,
            Next::Soon | Next::Now => {
                let connected = timeout(CONNECT_TIMEOUT, connect(shared.node.info())).await;
                match connected.unwrap_or_else(|_| Err(late())) {
                    Ok((reader, writer)) => {
                        backoff = BACKOFF.0;
                        match serve(&shared, reader, writer).await {
                            Ok(()) => return,
                            Err(error) => shared.fail(&error),
                        }
                    }
                    Err(error) => {
                        shared.fail(&error);
                        sleep(backoff).await;
                        backoff = (2 * backoff).min(BACKOFF.1);
                    }
                }
            }
        }
    }
}

/// Carries over one connection until it breaks, or (`Ok`) the pipeline is dropped and all is answered.
async fn serve<R: Request>(shared: &Shared<R>, reader: Reader, writer: Writer) -> RedisResult<()> {
    tokio::select! {
        ended = write(shared, writer) => ended,
        ended = read(shared, reader) => ended,
        never = refresh_if_silent(shared) => never,
    }
}

/// Doubts, as long as nothing is answered, that this is still the node to ask. Never ends.
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
        match shared.next() {
            Next::NoMore if shared.lock().waiting.is_empty() => return Ok(()),
            Next::NoMore | Next::Nothing => {
                shared.filled.notified().await;
                // Tasks that are ready now may have something to ask as well: one turn of the others, never a wait.
                tokio::task::yield_now().await;
            }
            Next::Soon if !soon.is_over() => tokio::select! {
                () = shared.filled.notified() => tokio::task::yield_now().await,
                () = soon.over() => {}
            },
            Next::Soon | Next::Now => {
                soon = SoonTimer::default();
                shared.encode(&mut batch);
                writer.write_all(&batch).await?;
                batch.clear();
                if batch.capacity() > KEEP {
                    batch = Vec::new();
                }
            }
        }
    }
}

/// The one timer of what may wait for others to be sent with.
#[derive(Default)]
struct SoonTimer(Option<Pin<Box<Sleep>>>);

// === impl Soon ===

impl SoonTimer {
    fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|timer| timer.is_elapsed())
    }

    /// Ends [`SOON`] after this was first called.
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

/// Hands `answers` to those who wait the longest.
fn complete_answered<R: Request>(
    shared: &Shared<R>,
    answers: &mut Vec<RedisResult<Reply>>,
) -> RedisResult<()> {
    let (answered, has_room) = {
        let mut queue = shared.lock();
        let was_full = queue.waiting.len() >= MOST_UNANSWERED;
        // More answers than questions: nothing later could be told apart.
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
            if error.code() == Some("READONLY") {
                demoted = Some(error.clone());
            }
        }
        request.complete(answer);
    }
    // A server that no longer takes writes will not again: another one may answer to its name by now.
    demoted.map_or(Ok(()), Err)
}

fn late() -> RedisError {
    RedisError::from((ErrorKind::Io, "no connection", format!("within {CONNECT_TIMEOUT:?}")))
}
