//! The takes of one bucket, as callers know them.

use crate::clients::Call;

/// The takes of one bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Tokens of allowed takes.
    pub(super) taken: u64,
    /// Tokens of calls without an answer.
    pub(super) unsure: u64,
    /// Tokens of denied takes, which may be lost on their way back.
    pub(super) lost: u64,
    /// Tokens of refunds, and of those with an answer.
    pub(super) back: u64,
    pub(super) surely_back: u64,
    /// Allowed takes, in the order of their answers.
    pub(super) takes: Vec<Call>,
    /// Refunds. One without an answer may come at any time.
    pub(super) refunds: Vec<Call>,
}

// === impl Tally ===

impl Tally {
    /// Counts the answer to a take that was `sent`. The tokens of a denied one `may_be_lost`.
    pub(super) fn told(&mut self, sent: u64, now: u64, count: u64, is_allowed: bool, may_be_lost: bool) {
        self.unsure -= count;
        if is_allowed {
            self.taken += count;
            self.takes.push(Call { sent, received: now, count, ..Call::default() });
        } else if may_be_lost {
            self.lost += count;
        }
    }

    /// Counts tokens that go back, if there are as many to give. Returns the number of the refund.
    pub(super) fn gives_back(&mut self, now: u64, count: u64) -> Option<usize> {
        if self.taken - self.back < count {
            return None;
        }
        self.back += count;
        self.refunds.push(Call { sent: now, received: u64::MAX, count, ..Call::default() });
        Some(self.refunds.len() - 1)
    }

    /// Counts a refund that was answered.
    pub(super) fn given_back(&mut self, refund: usize, now: u64) {
        let refund = &mut self.refunds[refund];
        refund.received = now;
        self.surely_back += refund.count;
    }

    /// Tokens that may have come back between two instants.
    pub(super) fn may_be_back(&self, from: u64, until: u64) -> u64 {
        let is_in = |refund: &&Call| refund.sent <= until && refund.received >= from;
        self.refunds.iter().filter(is_in).map(|refund| refund.count).sum()
    }
}
