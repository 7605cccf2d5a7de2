//! Native commands: first takes and decrements.

use topup_twin::{AtRest, Bucket, Counter};
use topup_wire::constants::TAGS;

use super::{Key, Server, Written};
use crate::fault::Fault;

// === impl Server ===

impl Server {
    /// `SET … PX … NX`.
    pub(super) fn first_take(&mut self, key: usize, count: u64, written: Written, now: u64) -> bool {
        let key = &mut self.keys[key];
        let overwrites = self.fault == Some(Fault::FirstTakeOverwrites);
        if !key.is_absent() && !overwrites {
            return false;
        }
        let expires = now / 1_000 + written.terms.pace.first_take_ms(count);
        let tag = (written.terms.id % TAGS) as u16;
        let bucket = Bucket::AtRest(AtRest::FirstTake { tag, count, expires });
        *key = Key { bucket, expires, born: now, ..Key::default() };
        true
    }

    /// `DECRBY`; `None` where the bucket is at rest.
    pub(super) fn decrement(&mut self, key: usize, by: u64) -> Option<i64> {
        let Key { bucket, stray, .. } = &mut self.keys[key];
        let tokens = match bucket {
            Bucket::AtRest(_) => return None,
            Bucket::Absent => stray.get_or_insert(0),
            Bucket::Counting(Counter { tokens, .. }) => tokens,
        };
        *tokens = tokens.saturating_sub(by as i64);
        Some(*tokens)
    }
}
