//! Who waits for an answer, and the answer that is still to come.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::{BucketEntry, Handle};
use crate::{
    decision::Decision,
    error::Error,
    machine::{Event, Waiter},
};

/// A waiter in a bucket's queue.
#[derive(Debug)]
pub(crate) struct Asker {
    answer: oneshot::Sender<Result<Decision, Error>>,
    count: u64,
}

/// An answer that is still to come. Tokens that come for someone who has left meanwhile go back.
#[derive(Debug)]
pub(crate) struct Pending<'b> {
    receiver: oneshot::Receiver<Result<Decision, Error>>,
    count: u64,
    client: &'b Handle,
    entry: &'b Arc<BucketEntry>,
}

// === impl Asker ===

impl Asker {
    pub(crate) fn new<'b>(
        count: u64,
        client: &'b Handle,
        entry: &'b Arc<BucketEntry>,
    ) -> (Self, Pending<'b>) {
        let (answer, receiver) = oneshot::channel();
        (Self { answer, count }, Pending { receiver, count, client, entry })
    }

    /// Tells the answer: the tokens of it, if nobody was there to hear it.
    pub(super) fn tell(self, answer: Result<Decision, Error>) -> u64 {
        let unheard = self.answer.send(answer);
        if matches!(unheard, Err(Ok(Decision::Allowed { .. }))) { self.count } else { 0 }
    }
}

impl Waiter for Asker {
    fn has_left(&self) -> bool {
        self.answer.is_closed()
    }
}

// === impl Pending ===

impl Future for Pending<'_> {
    type Output = Result<Decision, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|told| told.unwrap_or_else(|_| Err(Error::client_gone())))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        // Told, and nobody looked: nothing is left here once someone has.
        if let Ok(Ok(Decision::Allowed { .. })) = self.receiver.try_recv() {
            self.entry.step(Event::Unwanted(self.count), self.client, None);
        }
    }
}
