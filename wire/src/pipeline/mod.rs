//! A pipeline: one connection that carries many small commands of many tasks in as few writes as possible.
//!
//! Batching on the wire outweighs everything else a client can do: a `DECR` costs Redis some µs alone and a few tenths
//! in company. A request is encoded when the socket is free to be written to, straight into the pipeline's buffer, so that
//! it asks for all who have come by then; whatever has gathered goes out in one write, and nothing ever waits for
//! company. Answers complete their requests on the pipeline's own task, so that no other has to be woken for it.
//!
//! Only commands answered by a whole number or a flat array of them travel here; the rest uses [`crate::connection`].
//! In a cluster, there is a pipeline to each node.

mod pipelines;
mod redis_command;
mod reply;
mod socket;
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

/// Most commands without an answer on one connection. What is beyond waits here for its turn, and costs Redis nothing if
/// nobody waits for it any more by then. More of them in flight make no server faster: they only wait there instead.
const MOST_UNANSWERED: usize = 1_024;
/// The longest that a request which may wait does so for others to be sent with.
const SOON: Duration = Duration::from_millis(1);

/// A question for Redis, asked as late as can be.
///
/// Both parts run on the pipeline's own task: they must not block, and may send another request.
pub trait Request: Send + 'static {
    /// Appends the commands to ask now: how many there are, and so replies; 0 when there is nothing to ask any more.
    fn encode(&mut self, out: &mut Vec<u8>) -> usize;

    /// Takes the answer to what was asked: to the last of several commands, or the first error among theirs. An error
    /// says that there is none, or that Redis refused; or that the node has not got the key, which is then known of the
    /// next: see [`is_elsewhere`](crate::connection::is_elsewhere).
    fn complete(self, answer: RedisResult<Reply>);
}

/// One connection for small commands, which comes back by itself. Ends when it is dropped.
struct Pipeline<R: Request>(Arc<Shared<R>>);

/// What a pipeline and its task share.
struct Shared<R> {
    node: Arc<Node>,
    router: Arc<ClusterRouter>,
    queue: Mutex<Queue<R>>,
    /// Told when there is something to send, or nobody will ever send again.
    filled: Notify,
}

/// What is to be asked, and what waits for answers.
struct Queue<R> {
    /// To be encoded with the next write that has room for it.
    pending: VecDeque<R>,
    /// To be encoded with the next write that others make, or after [`SOON`].
    soon: VecDeque<R>,
    /// Asked, in the order of their commands.
    waiting: VecDeque<Waiting<R>>,
    /// How many have been answered.
    answered: u64,
    closed: bool,
}

/// A request without its answer.
struct Waiting<R> {
    request: R,
    /// Replies that are still to come.
    replies: usize,
    /// The first error among those that have.
    refused: Option<Box<RedisError>>,
}

/// When a pipeline has something to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// At once.
    Now,
    /// With others, or after [`SOON`].
    Soon,
    /// When there is something new.
    Nothing,
    /// Never again.
    NoMore,
}

// === impl Pipeline ===

impl<R: Request> Pipeline<R> {
    /// A pipeline to `node`, one of `servers`, connected with its first request.
    fn open(node: Arc<Node>, router: Arc<ClusterRouter>, runtime: &Handle) -> Self {
        let queue = Queue::default();
        let shared = Arc::new(Shared { node, router, queue: Mutex::new(queue), filled: Notify::new() });
        runtime.spawn(task::run(shared.clone()));
        Self(shared)
    }

    /// Asks with the next write.
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

    /// Asks with the next write that others make, or after [`SOON`].
    fn send_soon(&self, request: R) {
        let first = {
            let mut queue = self.0.lock();
            queue.soon.push_back(request);
            queue.soon.len() == 1 && queue.pending.is_empty()
        };
        // For the time to be taken.
        if first {
            self.0.filled.notify_one();
        }
    }

    /// Ends, and waits for no answer: all that have none are given `error`.
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

    /// When there is something to ask.
    fn next(&self) -> Next {
        self.lock().next()
    }

    /// Encodes what is pending and has room into `out`, and before it what may have waited for that.
    fn encode(&self, out: &mut Vec<u8>) {
        let pending = self.lock().take_pending();
        // Not under the lock: a request may look at what its answer would change.
        let mut asked = Vec::with_capacity(pending.len());
        for mut request in pending {
            let replies = request.encode(out);
            if replies > 0 {
                asked.push(Waiting { request, replies, refused: None });
            }
        }
        self.lock().waiting.extend(asked);
    }

    /// Gives everything that waits the same error: nobody knows what Redis has made of it.
    fn fail(&self, error: &RedisError) {
        self.router.note_error(error, &self.node);
        // Whoever asks again meanwhile is not failed by the same error again and again.
        let rounds = 1 + self.lock().unsent() / MOST_UNANSWERED;
        for _ in 0..rounds {
            // What was still to be asked has to say for whom, which is what encoding does.
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

    /// Takes out what there is room for, in the order in which it is to be asked.
    fn take_pending(&mut self) -> VecDeque<R> {
        let room = MOST_UNANSWERED.saturating_sub(self.waiting.len());
        if self.soon.is_empty() && self.pending.len() <= room {
            // Nothing is moved: the next requests come into room of the same size.
            let next = VecDeque::with_capacity(self.pending.len());
            return std::mem::replace(&mut self.pending, next);
        }
        let soon = self.soon.len().min(room);
        let pending = self.pending.len().min(room - soon);
        self.soon.drain(..soon).chain(self.pending.drain(..pending)).collect()
    }

    /// The requests that `answers` are the last replies to, each with its answer; `None` when there are more answers than
    /// were asked for.
    fn answer(
        &mut self,
        answers: impl Iterator<Item = RedisResult<Reply>>,
    ) -> Option<Vec<(R, RedisResult<Reply>)>> {
        let mut answered = Vec::with_capacity(answers.size_hint().0);
        for answer in answers {
            let waiting = self.waiting.front_mut()?;
            self.answered += 1;
            waiting.replies -= 1;
            let last = waiting.replies == 0;
            let answer = match (waiting.refused.take(), answer) {
                (Some(error), _) if !last => {
                    waiting.refused = Some(error);
                    continue;
                }
                (None, Err(error)) if !last => {
                    waiting.refused = Some(Box::new(error));
                    continue;
                }
                (None, Ok(_)) if !last => continue,
                (Some(error), _) => Err(*error),
                (None, answer) => answer,
            };
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

    /// What is answered, a refusal by its message.
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
