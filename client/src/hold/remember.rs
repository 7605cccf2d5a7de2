//! Holds that Redis remembers, since those of dead holders are put back.

use topup_wire::limit::{Mode, OnAbandon};

use super::Hold;
use crate::{
    bucket::decision,
    decision::Decision,
    error::Error,
    machine::Event,
    shell::{
        Published,
        holds::{HoldRef, HoldRequest},
    },
};

// === impl Published ===

impl Published {
    /// Whether Redis has to remember holds of `key`, since those of dead holders are put back.
    pub(crate) fn remembers_holds(&self, key: Option<&str>) -> bool {
        self.limit.holds.on_abandon() == OnAbandon::Refund && self.mode(key) != Mode::Off
    }
}

// === impl Hold ===

impl Hold {
    /// Takes the tokens of a hold that Redis remembers.
    pub(crate) async fn reserve(&self) -> Result<Decision, Error> {
        let (handle, entry, count) = (self.bucket.handle(), &self.entry, self.estimate);
        if let Some(paused) = self.bucket.paused_decision(count).await {
            return self.bucket.conclude(entry, count, Ok(paused));
        }
        let known = entry.published(handle).and_then(|published| entry.denial(count, &published, handle));
        let result = match (known, handle.check_circuit(entry)) {
            (Some(denial), _) => Ok(denial.into()),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => {
                let hold = HoldRef { id: &self.id, tokens: count, is_remembered: true };
                let settled = handle.within_deadline(entry.reserve_hold(hold, handle)).await;
                settled.map(|settled| decision(&settled))
            }
        };
        self.bucket.conclude(entry, count, result)
    }

    /// Has Redis remember a hold whose tokens are taken.
    ///
    /// After an error, Redis may remember it or not. It counts as remembered then: settling it charges too much rather
    /// than too little.
    pub(crate) async fn remember(&self) {
        if self.remembered() {
            let hold = HoldRef { id: &self.id, tokens: self.estimate, is_remembered: true };
            let handle = self.bucket.handle();
            let _ = handle
                .within_deadline(self.entry.request_hold(hold, HoldRequest::Remember, handle, None))
                .await;
        }
    }

    /// Whether Redis remembers it.
    pub(super) const fn remembered(&self) -> bool {
        self.is_remembered && self.tokens() > 0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.settlement.is_some() || !self.remembered() {
            return;
        }
        let (handle, entry) = (self.bucket.handle().clone(), self.entry.clone());
        let (id, tokens) = (std::mem::take(&mut self.id), self.estimate);
        let runtime = handle.shared().runtime.clone();
        // Should it fail, a daemon does it at the hold's time.
        runtime.spawn(async move {
            let hold = HoldRef { id: &id, tokens, is_remembered: true };
            if entry.request_hold(hold, HoldRequest::Abandon, &handle, None).await.is_ok() {
                entry.step(Event::Changed, &handle, None);
            }
        });
    }
}
