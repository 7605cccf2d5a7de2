//! Holds of several buckets, taken at once.

use crate::{
    bucket::Bucket,
    client::Client,
    error::Error,
    hold::{Hold, Settlement},
    multi_decision::MultiDecision,
};

/// Attempts at most while plans of keys change.
const MOST_ATTEMPTS: u32 = 16;

/// The answer to [`Client::reserve_all`]: a hold of each bucket, or of none.
#[must_use = "holds that are dropped are abandoned"]
#[derive(Debug)]
pub struct Holds {
    decision: MultiDecision,
    holds: Vec<Hold>,
}

// === impl Client ===

impl Client {
    /// Takes estimates of several buckets, all or nothing, as [`Client::take_all`] does. For work with several costs, such
    /// as requests and tokens of a language model. Each hold is then settled on its own.
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
        let mut attempts = 1;
        loop {
            // A hold is settled in the bucket that it was taken from.
            let mut placed = Vec::with_capacity(estimates.len());
            for (bucket, estimate) in &estimates {
                let (bucket, is_exempt) = bucket.of_hold().await;
                placed.push((bucket, *estimate, is_exempt));
            }
            let takes = placed.iter().map(|(bucket, estimate, _)| (bucket.clone(), *estimate));
            let decision = match self.take_all(takes).await {
                Err(Error::PlanChanged { .. }) if attempts < MOST_ATTEMPTS => {
                    attempts += 1;
                    continue;
                }
                decision => decision?,
            };
            let hold = |(bucket, estimate, is_exempt): &(Bucket, u64, bool)| {
                Hold::of(&decision, bucket, *estimate, *is_exempt)
            };
            // A limit in shadow that was removed meanwhile has no part in the decision.
            let holds: Vec<Hold> =
                if decision.is_allowed() { placed.iter().filter_map(hold).collect() } else { Vec::new() };
            futures_util::future::join_all(holds.iter().map(Hold::remember)).await;
            return Ok(Holds { decision, holds });
        }
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
