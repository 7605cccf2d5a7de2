//! Instants ahead: a part has enough tokens, and the key expires.

use topup_wire::{bucket::Pace, constants::EXACT};

use super::{fault::ShareFault, state::FairShares};

// === impl FairShares ===

impl FairShares {
    /// µs until the part may take `goal` tokens.
    pub(super) fn wait_for(&self, index: usize, goal: u64, now: u64, fault: Option<ShareFault>) -> u64 {
        let part = &self.parts[index];
        let reached = |pace: Pace, at: u64, more: u64| if more > 0 { pace.instant(at, more) } else { now };
        let next_deal = self.dealt + self.period;
        let own = |loan: u64| reached(part.pace, part.at, goal.saturating_sub(part.tokens + loan));
        let mut by_own = own(self.lent(index, now, fault));
        if by_own >= next_deal {
            by_own = own(0);
        }
        if self.lends {
            by_own = by_own.min(next_deal.max(reached(self.pace, self.at, 1)));
        }
        let by_total = reached(self.pace, self.at, goal.saturating_sub(self.tokens));
        by_own.max(by_total).saturating_sub(now)
    }

    /// Lets the key live for a while after the limit is full.
    pub(super) fn prolong(&mut self, now: u64) {
        // Doubles, as in Lua.
        let fill = (self.capacity as f64 / self.pace.n as f64 * self.pace.p as f64).ceil() + 1_000.0;
        if (self.expires as f64) < now as f64 + fill {
            let longer = now as f64 + fill + (fill / 8.0).floor().max(1_000_000.0);
            self.expires = longer.min(EXACT as f64) as u64;
        }
    }
}
