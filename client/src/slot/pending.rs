//! An answer that is still to come.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::{Slot, given_up};
use crate::{bucket::Bucket, client::Client, decision::Decision, error::Error};

/// An answer that is still to come. Tokens that come for someone who has left meanwhile go back.
#[derive(Debug)]
pub(crate) struct Pending<'b> {
    receiver: oneshot::Receiver<Result<Decision, Error>>,
    count: u64,
    client: &'b Client,
    slot: &'b Arc<Slot>,
}

// === impl Pending ===

impl<'b> Pending<'b> {
    pub(super) fn new(
        receiver: oneshot::Receiver<Result<Decision, Error>>,
        count: u64,
        client: &'b Client,
        slot: &'b Arc<Slot>,
    ) -> Self {
        Self { receiver, count, client, slot }
    }
}

impl Future for Pending<'_> {
    type Output = Result<Decision, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(|told| told.unwrap_or_else(|_| Err(given_up())))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        // Told, and nobody looked: nothing is left here once someone has.
        if let Ok(Ok(Decision::Allowed { .. })) = self.receiver.try_recv() {
            give_back(self.client, self.slot, self.count);
        }
    }
}

/// Gives back tokens that were taken for nobody. What cannot be given back is lost to the bucket, which is never more
/// than it may give.
pub(super) fn give_back(client: &Client, slot: &Arc<Slot>, tokens: u64) {
    if tokens > 0 {
        let bucket = Bucket::of(client, slot);
        client.shared().runtime.spawn(async move { bucket.refund(tokens).await.map(drop) });
    }
}
