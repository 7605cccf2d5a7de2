//! Takes that are not counted: what the cost of counting is measured against. Takes under plans are counted all the same.

use crate::{bucket::Bucket, decision::Decision, error::Error};

// === impl Bucket ===

impl Bucket {
    /// [`Bucket::take`], uncounted where memory decides it.
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc, reason = "those of a take")]
    pub async fn take_uncounted(&self, count: u64) -> Result<Decision, Error> {
        crate::bucket::checked(count)?;
        let entry = self.entry()?;
        // The same steps as in `take`: the two differ in the counting alone.
        if !self.is_to_be_placed(entry) {
            if count == 1 && entry.may_tell() {
                tokio::task::consume_budget().await;
                if let Some(answer) = self.decide_from_memory(entry, |_| {}) {
                    return answer;
                }
            }
            match self.take_or_wait(entry, count, None).await {
                Err(Error::PlanChanged { .. }) => {}
                answer => return answer,
            }
        }
        Box::pin(self.take(count)).await
    }

    /// [`Bucket::try_take`], uncounted.
    #[doc(hidden)]
    pub fn try_take_uncounted(&self) -> Option<Decision> {
        let entry = self.entry().ok()?;
        if !entry.limit().is_planned() {
            return self.try_take_noting(entry, |_| {});
        }
        self.try_take()
    }
}
