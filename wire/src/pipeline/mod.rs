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
mod queue;
mod read;
mod redis_command;
mod reply;
mod task;
mod write;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{RedisError, RedisResult};
use tokio::{runtime::Handle, sync::Notify};

use crate::connection::{ClusterRouter, Node};
pub use pipelines::Pipelines;
use queue::{MOST_UNANSWERED, Next, Queue, Waiting};
pub use redis_command::{Expiry, RedisCommand};
pub use reply::Reply;
#[cfg(feature = "fuzzing")]
pub(crate) use reply::parse;

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

/// Work for after the next write.
pub type Later = Box<dyn FnOnce() + Send>;

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

    /// Calls `later` after the next write, or soon if nothing is to be written.
    fn after_write(&self, later: Later) {
        {
            let mut queue = self.0.lock();
            if queue.takes_later {
                queue.later.push(later);
                drop(queue);
                return self.0.filled.notify_one();
            }
        }
        later();
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

    /// Whether there is work for after the next write.
    fn has_later(&self) -> bool {
        !self.lock().later.is_empty()
    }

    /// Does the work for after the next write.
    fn do_later(&self) {
        // Without the lock: it may send requests.
        let later = std::mem::take(&mut self.lock().later);
        later.into_iter().for_each(|work| work());
    }

    /// Encodes requests into `out`, as many as have room.
    fn encode(&self, out: &mut Vec<u8>) {
        let pending = self.lock().take_pending();
        // Without the lock: a request may read the state that its reply changes.
        let mut asked = Vec::with_capacity(pending.len());
        for mut request in pending {
            let replies = request.encode(out);
            if replies > 0 {
                asked.push(Waiting { request, replies, has_set: false, refused: None });
            }
        }
        self.lock().waiting.extend(asked);
    }

    /// Completes all requests with `error`. Whether Redis has carried them out is unknown.
    fn fail(&self, error: &RedisError) {
        self.router.note_error(error, &self.node);
        self.lock().takes_later = false;
        self.do_later();
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
