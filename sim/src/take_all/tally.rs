//! The takes of one bucket, as callers know them.

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
    /// Allowed takes.
    pub(super) takes: Vec<Move>,
    pub(super) refunds: Vec<Move>,
}

/// Tokens that were taken or given back between two instants of Redis `TIME`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) sent: u64,
    /// The instant of the answer; `u64::MAX` without one.
    pub(super) answered: u64,
    pub(super) tokens: u64,
}

// === impl Tally ===

impl Tally {
    /// Counts the answer to a take that was `sent`. The tokens of a denied one `may_be_lost`.
    pub(super) fn told(&mut self, sent: u64, now: u64, count: u64, is_allowed: bool, may_be_lost: bool) {
        self.unsure -= count;
        if is_allowed {
            self.taken += count;
            self.takes.push(Move { sent, answered: now, tokens: count });
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
        self.refunds.push(Move { sent: now, answered: u64::MAX, tokens: count });
        Some(self.refunds.len() - 1)
    }

    /// Counts a refund that was answered.
    pub(super) fn given_back(&mut self, refund: usize, now: u64) {
        let refund = &mut self.refunds[refund];
        refund.answered = now;
        self.surely_back += refund.tokens;
    }
}
