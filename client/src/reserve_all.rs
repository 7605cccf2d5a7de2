//! Holds of several buckets, taken at once.

use topup_wire::limit::{Mode, OnAbandon};

use crate::{
    bucket::Bucket,
    client::Client,
    error::Error,
    hold::{Hold, Settlement},
    take_all::MultiDecision,
};

/// The answer to [`Client::reserve_all`]: a hold of each bucket, or of none.
#[must_use = "holds that are dropped are abandoned"]
#[derive(Debug)]
pub struct Holds {
    decision: MultiDecision,
    holds: Vec<Hold>,
}

// === impl Client ===

impl Client {
    /// Takes estimates of several buckets, all or nothing, as [`Client::take_all`] does: for work with a cost in several
    /// dimensions, such as requests and tokens of a language model. Each hold is then settled on its own.
    ///
    /// ```no_run
    /// # async fn example(topup: topup::Client) -> Result<(), topup::Error> {
    /// let (input, output) = (topup.limit("input").key("alice"), topup.limit("output").key("alice"));
    /// let mut holds = topup.reserve_all([(input, 700), (output, 500)]).await?;
    /// if holds.is_allowed() {
    ///     holds.settle(&[684, 312]).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Limits with `on_abandon = "refund"` cost one more command each. A process that dies between the two commands
    /// leaves its estimate charged.
    ///
    /// # Errors
    /// The same as for [`Client::take_all`].
    pub async fn reserve_all(
        &self,
        estimates: impl IntoIterator<Item = (Bucket, u64)>,
    ) -> Result<Holds, Error> {
        let estimates: Vec<(Bucket, u64)> = estimates.into_iter().collect();
        let decision = self.take_all(estimates.iter().cloned()).await?;
        let mut holds = Vec::new();
        if decision.is_allowed() {
            for (bucket, estimate) in &estimates {
                let entry = bucket.entry()?;
                let decided = decision
                    .limits()
                    .iter()
                    .find(|limit| entry.name().as_str() == limit.limit() && entry.key() == limit.key());
                let refunds = bucket.last_published(entry).is_some_and(|published| {
                    published.limit.holds.on_abandon() == OnAbandon::Refund
                        && published.mode(entry.key()) != Mode::Off
                });
                // A limit in shadow that was removed meanwhile has no part in the decision.
                let Some(decided) = decided else { continue };
                holds.push(Hold::new(bucket, entry, *estimate, refunds).decided(decided.decision()));
            }
        }
        futures_util::future::join_all(holds.iter().map(Hold::remember)).await;
        Ok(Holds { decision, holds })
    }
}

// === impl Holds ===

impl Holds {
    /// The decision on all estimates.
    pub const fn decision(&self) -> &MultiDecision {
        &self.decision
    }

    /// Whether the caller may go on.
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// The holds, in the order of the estimates; empty if not all were allowed.
    pub fn holds(&mut self) -> &mut [Hold] {
        &mut self.holds
    }

    /// Settles the holds at once, in the order of the estimates. Holds without a number in `used` stay open.
    ///
    /// # Errors
    /// The first one of [`Hold::settle`], after all were tried. Call it again: what is settled stays so.
    pub async fn settle(&mut self, used: &[u64]) -> Result<Vec<Settlement>, Error> {
        let settling = self.holds.iter_mut().zip(used).map(|(hold, used)| hold.settle(*used));
        futures_util::future::join_all(settling).await.into_iter().collect()
    }
}
