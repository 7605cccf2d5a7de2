//! Looks at one bucket that change nothing.

use topup_wire::{
    bucket::Operation,
    reply::{Settled, Verdict},
};

use super::{Bucket, Here, decision};
use crate::{decision::Decision, error::Error};

// === impl Bucket ===

impl Bucket {
    /// The decision that a take of one token would get now. Changes nothing.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`].
    pub async fn peek(&self) -> Result<Decision, Error> {
        match self.here().await {
            Ok(Here::Bucket(bucket)) => bucket.peek_here().await,
            Ok(Here::Decided(decision)) => self.apply_mode(self.entry()?, Ok(decision)),
            Err(error) => self.apply_mode(self.entry()?, Err(error)),
        }
    }

    async fn peek_here(&self) -> Result<Decision, Error> {
        let entry = self.entry()?;
        let before = entry.prefetched(&self.handle);
        let settled = self.handle.within_deadline(self.settle(Operation::Peek(1))).await;
        // Prefetched tokens of this worker count as tokens of the bucket. Tokens that came meanwhile may be in both.
        let with_prefetched = |settled: Settled| {
            let prefetched = before.min(entry.prefetched(&self.handle));
            let tokens = settled.tokens.saturating_add(prefetched).min(settled.capacity);
            let verdict = if tokens > 0 { Verdict::Allowed } else { settled.verdict };
            decision(&Settled { tokens, verdict, ..settled })
        };
        let decision = self.apply_mode(entry, settled.map(with_prefetched))?;
        Ok(self
            .paused_decision(1)
            .await
            .map_or(decision, |paused| paused.with_remaining(decision.remaining())))
    }
}
