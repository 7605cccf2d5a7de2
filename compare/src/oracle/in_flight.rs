//! Tokens that takes still under way may have had already.

use topup_lab::clock::Micros;

use crate::take::Take;

/// Takes of one bucket that were allowed, or may have been, to be asked in the order of the answers.
#[derive(Debug)]
pub(super) struct InFlight {
    /// When each was sent, and the tokens of all sent up to it.
    sent: Vec<(Micros, u64)>,
    answered: u64,
}

// === impl InFlight ===

impl InFlight {
    pub(super) fn new(takes: &[Take]) -> Self {
        let mut sent: Vec<(Micros, u64)> = takes
            .iter()
            .filter(|take| take.may_have_taken())
            .map(|take| (take.sent, u64::from(take.count)))
            .collect();
        sent.sort_unstable();
        let mut sum = 0;
        for (_, tokens) in &mut sent {
            sum += *tokens;
            *tokens = sum;
        }
        Self { sent, answered: 0 }
    }

    /// One of them has been answered, or given up.
    pub(super) fn answer(&mut self, take: &Take) {
        self.answered += u64::from(take.count);
    }

    /// Tokens of those sent by `at` and not answered.
    pub(super) fn at(&self, at: Micros) -> u64 {
        let sent = self.sent.partition_point(|(sent, _)| *sent <= at);
        sent.checked_sub(1).map_or(0, |last| self.sent[last].1).saturating_sub(self.answered)
    }
}
