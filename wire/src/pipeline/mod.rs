//! A pipeline: one connection that sends many small commands of many tasks in as few writes as possible.
//!
//! Batching saves more than any other measure of a client. A `DECR` costs Redis some µs alone, and a few tenths of that
//! in a batch. Requests are encoded as soon as the socket can be written to, straight into one buffer. Therefore one
//! command serves all waiters so far, one write has all commands, and no request waits for a batch to fill.
//! Replies complete their requests on the pipeline's own task, so no other task has to be woken for that.
//!
//! Replies are whole numbers, flat arrays of them, or short texts. Other commands use [`crate::connection`]. In a
//! cluster, there is a pipeline to each node.

mod pipelines;
mod redis_command;
mod reply;
mod task;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{RedisError, RedisResult};
use tokio::{runtime::Handle, sync::Notify};

use crate::connection::{ClusterRouter, Node};
pub use pipelines::Pipelines;
pub use redis_command::{Expiry, RedisCommand};
pub use reply::Reply;
#[cfg(feature = "fuzzing")]
pub(crate) use reply::parse;

/// Most requests without a reply on one connection. More of them make no server faster. They wait here, and cost Redis
/// nothing if their callers have left by their turn.
const MOST_UNANSWERED: usize = 1_024;
/// The longest wait of a request that may wait to be sent with others.
const SOON: Duration = Duration::from_millis(1);

/// A request to Redis, encoded as late as possible.
///
/// Both functions run on the pipeline's own task. They must not block, and may send another request.
pub trait Request: Send + 'static {
    /// Appends the commands. Returns their number, which is 0 if the request is not needed any more.
    fn encode(&mut self, out: &mut Vec<u8>) -> usize;

    /// Takes the reply to the last command, or the first error among the replies.
    ///
    /// An error says that Redis refused, or that no reply came. It may also be a redirection, see
    /// [`is_elsewhere`](crate::connection::is_elsewhere): the next request goes to the right node.
    fn complete(self, answer: RedisResult<Reply>);
}

/// One connection for small commands, reopened after a break. It ends when this is dropped.
struct Pipeline<R: Request>(Arc<Shared<R>>);

/// State that a pipeline and its task share.
struct Shared<R> {
    node: Arc<Node>,
    router: Arc<ClusterRouter>,
    queue: Mutex<Queue<R>>,
    /// Notified when there is a request to send, or the pipeline is closed.
    filled: Notify,
}

/// Requests to be sent, and requests without a reply.
struct Queue<R> {
    /// Requests for the next write that has room for them.
    pending: VecDeque<R>,
    /// Requests for the next write with others, or after [`SOON`].
    soon: VecDeque<R>,
    /// Requests that have been sent, in the order of their commands.
    waiting: VecDeque<Waiting<R>>,
    /// Number of replies so far.
    answered: u64,
    closed: bool,
}

/// A request without its reply.
struct Waiting<R> {
    request: R,
    /// Replies still to come.
    replies: usize,
    /// The first error among the replies so far.
    refused: Option<Box<RedisError>>,
}

/// When a pipeline writes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// At once.
    Now,
    /// With other requests, or after [`SOON`].
    Soon,
    /// When a request comes.
    Nothing,
    /// Never again.
    NoMore,
}

// === impl Pipeline ===

impl<R: Request> Pipeline<R> {
    /// A pipeline to `node`, a node of `router`. The first request connects.
    fn open(node: Arc<Node>, router: Arc<ClusterRouter>, runtime: &Handle) -> Self {
        let queue = Queue::default();
        let shared = Arc::new(Shared { node, router, queue: Mutex::new(queue), filled: Notify::new() });
        runtime.spawn(task::run(shared.clone()));
        Self(shared)
    }

    /// Sends a request with the next write.
    fn send(&self, request: R) {
        let first = {
            let mut queue = self.0.lock();
            queue.pending.push_back(request);
            queue.pending.len() == 1
        };
        if first {
            self.0.filled.notify_one();
        }
    }

    /// Sends a request with the next write of others, or after [`SOON`].
    fn send_soon(&self, request: R) {
        if self.0.node.endpoint().is_in_memory() {
            return self.send(request);
        }
        let first = {
            let mut queue = self.0.lock();
            queue.soon.push_back(request);
            queue.soon.len() == 1 && queue.pending.is_empty()
        };
        // The task starts its timer.
        if first {
            self.0.filled.notify_one();
        }
    }

    /// Ends the pipeline. Requests without a reply get `error`.
    fn close(&self, error: &RedisError) {
        self.0.lock().closed = true;
        self.0.fail(error);
        self.0.filled.notify_one();
    }
}

impl<R: Request> Drop for Pipeline<R> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.filled.notify_one();
    }
}

// === impl Shared ===

impl<R: Request> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, Queue<R>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When to write next.
    fn next(&self) -> Next {
        self.lock().next()
    }

    /// Encodes requests into `out`, as many as have room.
    fn encode(&self, out: &mut Vec<u8>) {
        let pending = self.lock().take_pending();
        // Without the lock: a request may read the state that its reply changes.
        let mut asked = Vec::with_capacity(pending.len());
        for mut request in pending {
            let replies = request.encode(out);
            if replies > 0 {
                asked.push(Waiting { request, replies, refused: None });
            }
        }
        self.lock().waiting.extend(asked);
    }

    /// Completes all requests with `error`. Whether Redis has carried them out is unknown.
    fn fail(&self, error: &RedisError) {
        self.router.note_error(error, &self.node);
        // Requests that are sent again meanwhile must not fail by the same error without end.
        let rounds = 1 + self.lock().unsent() / MOST_UNANSWERED;
        for _ in 0..rounds {
            // A request learns by encoding which waiters it serves.
            self.encode(&mut Vec::new());
            let waiting = std::mem::take(&mut self.lock().waiting);
            for Waiting { request, refused, .. } in waiting {
                request.complete(Err(refused.map_or_else(|| error.clone(), |refused| *refused)));
            }
        }
    }
}

// === impl Queue ===

impl<R> Queue<R> {
    fn next(&self) -> Next {
        match self.unsent() {
            0 if self.closed => Next::NoMore,
            0 => Next::Nothing,
            _ if self.waiting.len() >= MOST_UNANSWERED => Next::Nothing,
            _ if self.pending.is_empty() && !self.closed => Next::Soon,
            _ => Next::Now,
        }
    }

    /// Requests that are not encoded yet.
    fn unsent(&self) -> usize {
        self.soon.len() + self.pending.len()
    }

    /// Takes out the requests that have room, in the order of sending.
    fn take_pending(&mut self) -> VecDeque<R> {
        let room = MOST_UNANSWERED.saturating_sub(self.waiting.len());
        if self.soon.is_empty() && self.pending.len() <= room {
            // The whole queue is taken, and a new one of the same size is left.
            let next = VecDeque::with_capacity(self.pending.len());
            return std::mem::replace(&mut self.pending, next);
        }
        let soon = self.soon.len().min(room);
        let pending = self.pending.len().min(room - soon);
        self.soon.drain(..soon).chain(self.pending.drain(..pending)).collect()
    }

    /// Matches replies to requests. Returns the requests that are complete, each with its reply; `None` if there are
    /// more replies than commands.
    fn answer(
        &mut self,
        answers: impl Iterator<Item = RedisResult<Reply>>,
    ) -> Option<Vec<(R, RedisResult<Reply>)>> {
        let mut answered = Vec::with_capacity(answers.size_hint().0);
        for answer in answers {
            let waiting = self.waiting.front_mut()?;
            self.answered += 1;
            waiting.replies -= 1;
            let answer = waiting.refused.take().map_or(answer, |error| Err(*error));
            if waiting.replies > 0 {
                waiting.refused = answer.err().map(Box::new);
                continue;
            }
            if let Some(Waiting { request, .. }) = self.waiting.pop_front() {
                answered.push((request, answer));
            }
        }
        Some(answered)
    }
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        let [pending, soon] = [VecDeque::new(), VecDeque::new()];
        Self { pending, soon, waiting: VecDeque::new(), answered: 0, closed: false }
    }
}

#[cfg(test)]
mod tests {
    use redis::ErrorKind;

    use super::*;

    fn waiting(request: u32, replies: usize) -> Waiting<u32> {
        Waiting { request, replies, refused: None }
    }

    /// Completed requests, an error by its message.
    fn told(queue: &mut Queue<u32>, answers: Vec<RedisResult<Reply>>) -> Vec<(u32, Result<Reply, String>)> {
        let answered = queue.answer(answers.into_iter()).unwrap();
        answered.into_iter().map(|(request, answer)| (request, answer.map_err(|e| e.to_string()))).collect()
    }

    fn refusal(why: &'static str) -> RedisResult<Reply> {
        Err(RedisError::from((ErrorKind::Io, why)))
    }

    #[test]
    fn a_request_gets_the_last_reply_to_its_commands_or_the_first_error() {
        let mut queue = Queue::default();
        queue.waiting.extend([waiting(1, 2), waiting(2, 1), waiting(3, 3), waiting(4, 2)]);
        assert_eq!(told(&mut queue, vec![Ok(Reply::Done)]), []);
        let told_next = told(&mut queue, vec![Ok(Reply::Number(7)), Ok(Reply::Nothing), Ok(Reply::Done)]);
        assert_eq!(told_next, [(1, Ok(Reply::Number(7))), (2, Ok(Reply::Nothing))]);
        let refused = told(&mut queue, vec![refusal("first"), refusal("second"), refusal("of another")]);
        let [(3, Err(message))] = refused.as_slice() else { panic!("{refused:?}") };
        assert!(message.contains("first"), "{message}");
        let refused = told(&mut queue, vec![Ok(Reply::Done)]);
        let [(4, Err(message))] = refused.as_slice() else { panic!("{refused:?}") };
        assert!(message.contains("of another"), "{message}");
        assert!(queue.answer([Ok(Reply::Done)].into_iter()).is_none());
    }

    #[test]
    fn what_may_wait_goes_with_others_and_before_them() {
        let mut queue = Queue::default();
        assert_eq!(queue.next(), Next::Nothing);
        queue.soon.extend([1, 2]);
        assert_eq!(queue.next(), Next::Soon);
        queue.pending.push_back(3);
        assert_eq!(queue.next(), Next::Now);
        assert_eq!(queue.take_pending(), [1, 2, 3]);
        queue.soon.push_back(4);
        queue.closed = true;
        assert_eq!(queue.next(), Next::Now);
        queue.waiting.extend((0..MOST_UNANSWERED as u32).map(|request| waiting(request, 1)));
        assert_eq!((queue.next(), queue.take_pending()), (Next::Nothing, VecDeque::new()));
        queue.soon.clear();
        assert_eq!(queue.next(), Next::NoMore);
    }
}
