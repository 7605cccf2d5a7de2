//! The end of a ledger: a bucket is emptied.

use topup::Bucket;
use topup_tests::clock;

use crate::{judge::Audit, oracle::seconds};

/// Attempts to empty a bucket. The first one does, unless the machine stands still.
const DRAINS: usize = 20;

/// Takes the tokens that are left, until a take of a few more is denied. Tokens that come meanwhile may be left.
pub(super) async fn drain(bucket: &Bucket, rate: f64, audit: Audit) -> anyhow::Result<Audit> {
    let mut drained = 0;
    for _ in 0..DRAINS {
        let began = clock::now();
        let held = bucket.peek().await?.remaining();
        if held > 0 && bucket.take(held).await?.is_allowed() {
            drained += held;
        }
        let sent = clock::now();
        let few = 1 + (2.0 * rate * seconds(sent - began)).ceil() as u64;
        if !bucket.take(few).await?.is_allowed() {
            return Ok(Audit { ended: (sent, clock::now()), drained, left: few, ..audit });
        }
        drained += few;
    }
    anyhow::bail!("a bucket is never empty")
}
