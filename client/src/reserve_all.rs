//! Holds of several buckets, taken at once.

use crate::{
    bucket::Bucket,
    bucket_takes::merged,
    client::Client,
    error::Error,
    hold::{Hold, Settlement},
    multi_decision::MultiDecision,
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
        if let [(bucket, estimate)] = &estimates[..] {
            let hold = bucket.reserve_cost(*estimate).await?;
            let decision = MultiDecision::of_one(bucket.entry()?, hold.decision());
            return Ok(Holds { holds: if hold.is_allowed() { vec![hold] } else { Vec::new() }, decision });
        }
        let takes = merged(estimates.iter().cloned())?;
        let (decision, placed) = MultiDecision::take_placed(self.handle(), &takes, |_| true).await?;
        let hold = |(bucket, estimate): &(Bucket, u64)| {
            let entry = bucket.entry().ok()?;
            // A hold is settled in the bucket that it was taken from.
            let taken = placed.iter().find(|take| take.is_of(entry));
            Hold::of(&decision, taken.map_or(bucket, |take| &take.bucket), *estimate, taken.is_none())
        };
        // A limit in shadow that was removed meanwhile has no part in the decision.
        let holds: Vec<Hold> =
            if decision.is_allowed() { estimates.iter().filter_map(hold).collect() } else { Vec::new() };
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
