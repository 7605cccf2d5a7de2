//! A task that waits for the answer to its take.

use std::{
    num::NonZeroU64,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::{BucketEntry, Handle};
use crate::{
    decision::Decision,
    error::{Answered, Error},
    machine::{Event, Micros, Waiter},
};

/// A task in the wait queue of a bucket.
#[derive(Debug)]
pub(crate) struct TaskWaiter {
    answer: oneshot::Sender<Answered>,
    /// Never 0, which saves the memory of telling whether there is a waiter.
    count: NonZeroU64,
}

/// The answer to a take, still to come. Tokens granted to a task that no longer waits are put back or lost.
#[derive(Debug)]
pub(crate) struct Pending<'b> {
    receiver: oneshot::Receiver<Answered>,
    count: u64,
    /// When the task asked.
    pub(super) since: Micros,
    client: &'b Handle,
    entry: &'b Arc<BucketEntry>,
}

// === impl TaskWaiter ===

impl TaskWaiter {
    pub(crate) fn new<'b>(
        count: u64,
        client: &'b Handle,
        entry: &'b Arc<BucketEntry>,
    ) -> (Self, Pending<'b>) {
        let (answer, receiver) = oneshot::channel();
        let wanted = NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN);
        (Self { answer, count: wanted }, Pending { receiver, count, since: 0, client, entry })
    }

    /// Sends the answer. Returns its tokens if the task no longer waits.
    pub(super) fn send(self, answer: Answered) -> u64 {
        let unread = self.answer.send(answer);
        if matches!(unread, Err(Ok(Decision::Allowed { .. }))) { self.count.get() } else { 0 }
    }
}

impl Waiter for TaskWaiter {
    fn has_left(&self) -> bool {
        self.answer.is_closed()
    }
}

// === impl Pending ===

impl Future for Pending<'_> {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.receiver).poll(context);
        answer.map(|answer| answer.unwrap_or_else(|_| Err(Error::client_dropped())))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        // An answer that was sent and not read is still in the channel.
        if let Ok(Ok(Decision::Allowed { .. })) = self.receiver.try_recv() {
            let event = Event::Unwanted { tokens: self.count, since: self.since };
            self.entry.step(event, self.client, None);
        }
    }
}
