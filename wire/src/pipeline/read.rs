//! The reading half of a pipeline's task: it completes requests with their replies.

use redis::{ErrorKind, RedisError, RedisResult};
use tokio::io::AsyncReadExt;

use super::{
    Request, Shared,
    queue::{MOST_UNANSWERED, Next},
    reply::{Reply, parse},
};
use crate::connection::{Reader, code};

/// Bytes for the replies to some thousand commands.
const READ_ROOM: usize = 64 * 1024;
/// Replies that complete requests at once. Their callers then send new requests while Redis works on others. Otherwise
/// all callers would wait for Redis, and then Redis for all callers.
const CHUNK: usize = 64;

/// Reads until the connection breaks.
pub(super) async fn read<R: Request>(shared: &Shared<R>, mut reader: Reader) -> RedisResult<()> {
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
