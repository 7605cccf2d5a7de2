//! A lane: one connection that carries many small commands of many tasks in as few writes as possible.
//!
//! Batching on the wire outweighs everything else a client can do: a `DECR` costs Redis some µs alone and a few tenths
//! in company. A request is encoded when the socket is free to be written to, straight into the lane's buffer, so that
//! it asks for all who have come by then; whatever has gathered goes out in one write, and nothing ever waits for
//! company. Answers complete their requests on the lane's own task, so that no other has to be woken for it.
//!
//! Only commands answered by a whole number or a flat array of them travel here; the rest uses [`crate::connection`].
//! In a cluster, there is a lane to each node.

mod carrier;
mod command;
mod lanes;
mod reply;
mod stream;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use redis::{RedisError, RedisResult};
use tokio::{runtime::Handle, sync::Notify};

use crate::connection::{Node, Servers};
pub use command::Command;
pub use lanes::Lanes;
pub use reply::Reply;

/// Most commands without an answer on one connection. What is beyond waits here for its turn, and costs Redis nothing if
/// nobody waits for it any more by then. More of them in flight make no server faster: they only wait there instead.
const MOST_UNANSWERED: usize = 1_024;

/// A question for Redis, asked as late as can be.
///
/// Both parts run on the lane's own task: they must not block, and may send another request.
pub trait Request: Send + 'static {
    /// Appends the command to ask now; false when there is nothing to ask any more.
    fn encode(&mut self, out: &mut Vec<u8>) -> bool;

    /// Takes the answer to what was asked. An error says that there is none, or that Redis refused; or that the node has
    /// not got the key, which is then known of the next: see [`is_elsewhere`](crate::connection::is_elsewhere).
    fn complete(self, answer: RedisResult<Reply>);
}

/// One connection for small commands, which comes back by itself. Ends when it is dropped.
struct Lane<R: Request>(Arc<Shared<R>>);

/// What a lane and its task share.
struct Shared<R> {
    node: Arc<Node>,
    servers: Arc<Servers>,
    queue: Mutex<Queue<R>>,
    /// Told when there is something to send, or nobody will ever send again.
    filled: Notify,
}

/// What is to be asked, and what waits for answers.
struct Queue<R> {
    /// To be encoded with the next write that has room for it.
    pending: VecDeque<R>,
    /// Asked, in the order of their commands.
    waiting: VecDeque<R>,
    /// How many have been answered.
    answered: u64,
    closed: bool,
}

// === impl Lane ===

impl<R: Request> Lane<R> {
    /// A lane to `node`, one of `servers`, connected with its first request.
    fn open(node: Arc<Node>, servers: Arc<Servers>, runtime: &Handle) -> Self {
        let queue = Queue { pending: VecDeque::new(), waiting: VecDeque::new(), answered: 0, closed: false };
        let shared = Arc::new(Shared { node, servers, queue: Mutex::new(queue), filled: Notify::new() });
        runtime.spawn(carrier::carry(shared.clone()));
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

    /// Ends, and waits for no answer: all that have none are given `error`.
    fn give_up(&self, error: &RedisError) {
        self.0.lock().closed = true;
        self.0.fail(error);
        self.0.filled.notify_one();
    }
}

impl<R: Request> Drop for Lane<R> {
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

    /// Whether there is anything to ask; `None` when there never will be.
    fn wants_more(&self) -> Option<bool> {
        let queue = self.lock();
        if queue.pending.is_empty() && queue.closed { None } else { Some(queue.has_room()) }
    }

    /// Encodes what is pending and has room into `out`.
    fn encode(&self, out: &mut Vec<u8>) {
        let pending = {
            let mut queue = self.lock();
            let many = queue.pending.len().min(MOST_UNANSWERED.saturating_sub(queue.waiting.len()));
            queue.pending.drain(..many).collect::<Vec<_>>()
        };
        // Not under the lock: a request may look at what its answer would change.
        let asked: Vec<R> =
            pending.into_iter().filter_map(|mut request| request.encode(out).then_some(request)).collect();
        self.lock().waiting.extend(asked);
    }

    /// Gives everything that waits the same error: nobody knows what Redis has made of it.
    fn fail(&self, error: &RedisError) {
        self.servers.hear(error, &self.node);
        // Whoever asks again meanwhile is not failed by the same error again and again.
        let rounds = 1 + self.lock().pending.len() / MOST_UNANSWERED;
        for _ in 0..rounds {
            // What was still to be asked has to say for whom, which is what encoding does.
            self.encode(&mut Vec::new());
            let waiting = std::mem::take(&mut self.lock().waiting);
            for request in waiting {
                request.complete(Err(error.clone()));
            }
        }
    }
}

// === impl Queue ===

impl<R> Queue<R> {
    /// Whether anything is pending that may be sent now.
    fn has_room(&self) -> bool {
        !self.pending.is_empty() && self.waiting.len() < MOST_UNANSWERED
    }
}
