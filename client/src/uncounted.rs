//! Takes that are not counted: what the cost of counting is measured against.

use crate::{bucket::Bucket, decision::Decision, error::Error};

// === impl Bucket ===

impl Bucket {
    /// [`Bucket::take`], uncounted where memory decides it.
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc, reason = "those of a take")]
    pub async fn take_uncounted(&self, count: u64) -> Result<Decision, Error> {
        crate::bucket::checked(count)?;
        let entry = self.entry()?;
        if count == 1 && entry.may_tell() {
            tokio::task::consume_budget().await;
            if let Some(decision) = entry.at_once(self.handle()) {
                if !entry.limit().is_special() {
                    return Ok(decision);
                }
                return self.conclude_decision(entry, 1, decision);
            }
        }
        self.take_or_wait(entry, count, None).await
    }

    /// [`Bucket::try_take`], uncounted.
    #[doc(hidden)]
    pub fn try_take_uncounted(&self) -> Option<Decision> {
        let entry = self.entry().ok()?;
        let decision = entry.at_once(self.handle()).or_else(|| self.try_without_token(entry))?;
        if !entry.limit().is_special() {
            return Some(decision);
        }
        self.conclude_decision(entry, 1, decision).ok()
    }
}
