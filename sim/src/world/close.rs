//! The end of a run: no bucket that is full has a key, and every caller was answered.

use super::World;
use crate::{oracle::Law, plan::Mishap};

// === impl World ===

impl World {
    /// Law 4, and that every caller was answered.
    pub(super) fn close(&mut self) {
        for bucket in 0..self.books.len() {
            let now = self.server.time(self.now);
            self.server.expire(bucket, now);
            let key = self.server.keys[bucket];
            // The daemon's slow sweep removes a stray that no worker knows of: its reply was lost, or a failover lost the
            // settle that removed it.
            let fails_over = |mishap: &Mishap| matches!(mishap, Mishap::Failover(_));
            let unknown =
                self.plan.network.lost > 0 || self.plan.mishaps.iter().any(|(_, mishap)| fails_over(mishap));
            let swept = unknown && key.bucket == topup_twin::Bucket::Absent && key.stray.is_some();
            if !key.is_absent() && !swept {
                self.breaks(bucket, Law::KeyStays(format!("{:?}, stray {:?}", key.bucket, key.stray)));
            }
        }
        for call in 0..self.calls.len() {
            if !self.calls[call].is_over {
                let bucket = self.calls[call].bucket;
                self.breaks(bucket, Law::Unanswered(None));
            }
        }
    }
}
