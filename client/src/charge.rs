//! Charges: tokens that are taken after their use.

use std::time::Duration;

use topup_wire::bucket::Operation;

use crate::{
    bucket::{Bucket, Here, checked},
    error::Error,
    machine::Event,
};

/// The result of [`Bucket::charge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charged {
    /// Tokens charged.
    pub charged: u64,
    /// Tokens that were not charged: the bucket would have been in deeper debt than the limit's `max_debt`.
    pub uncharged: u64,
    /// Tokens left in the bucket; 0 in debt.
    pub remaining: u64,
    /// Time until the bucket has a token, if no other caller takes meanwhile; zero if it has one. Debt is repaid first.
    pub retry_after: Duration,
}

// === impl Bucket ===

impl Bucket {
    /// Charges `count` tokens after their use, 1 to 2^53. A bucket without so many tokens is in debt after it, up to the
    /// limit's `max_debt`. Time repays the debt before any take is allowed.
    ///
    /// [`Charged::uncharged`] tells the tokens that do not fit. With `max_debt = 0`, the default, a charge takes what is
    /// left in the bucket. Windows and calendar quotas have no debt.
    ///
    /// # Errors
    /// The same as for [`Bucket::take`]. A charge that failed may have been carried out, and is not repeated: a
    /// [`Hold`](crate::Hold) is charged once.
    pub async fn charge(&self, count: u64) -> Result<Charged, Error> {
        checked(count)?;
        match self.here().await? {
            Here::Bucket(bucket) => bucket.charge_here(count).await,
            Here::Decided(decision) => {
                let charged = if decision.is_allowed() { count } else { 0 };
                Ok(Charged {
                    charged,
                    uncharged: count - charged,
                    remaining: decision.remaining(),
                    retry_after: decision.retry_after().unwrap_or_default(),
                })
            }
        }
    }

    /// Charges tokens of this bucket, whatever plan its key has.
    async fn charge_here(&self, count: u64) -> Result<Charged, Error> {
        let (entry, handle) = (self.entry()?, self.handle());
        let charge = async {
            let most_debt = entry.read(handle).await?.limit.holds.max_debt();
            self.settle(Operation::Charge { count, most_debt }).await
        };
        let settled = handle.within_deadline(charge).await;
        handle.note_reply(entry, &settled);
        let settled = settled?;
        // The worker's estimate of the bucket and its cached denials are out of date.
        entry.step(Event::Changed, handle, None);
        Ok(Charged {
            charged: settled.granted,
            uncharged: count.saturating_sub(settled.granted),
            remaining: settled.tokens,
            retry_after: Duration::from_micros(settled.wait),
        })
    }
}
