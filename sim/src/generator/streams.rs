//! Callers of every kind, and their pace.

use crate::{
    dice::Dice,
    plan::{Plan, SECOND, Stream},
};

// === impl Plan ===

impl Plan {
    pub(super) fn stream(&self, dice: &mut Dice, callers: u64) -> Stream {
        let (terms, lasts) = (self.terms, self.lasts);
        let least = lasts / callers;
        let full = terms.time_of(terms.capacity);
        match dice.of(0..=9) {
            0..=3 => {
                let most = dice.pick(&[1, 1, 1, 2, 5]).min(terms.capacity);
                let percent = dice.pick(&[10, 50, 90, 130, 500]);
                let gap = terms.time_of((1 + most) * 50) / percent / self.buckets as u64;
                Stream::Takes { gap: gap.max(least), most }
            }
            4..=6 => {
                let workers = self.workers as u64;
                let most = (callers / workers / 2).clamp(1, 64);
                let takes = dice.of(1..=most).min(2 * terms.capacity);
                let gap = dice.of(full / 2 + 1..=full * 3 / 2 + 2).max(lasts * takes * workers / callers);
                Stream::Bursts { gap, takes, spread: dice.pick(&[0, 3_000, 90_000, 300_000]) }
            }
            7 => {
                let size = dice.of(32..=150);
                Stream::Crowds {
                    gap: (lasts * size * 4 / callers).max(full),
                    size,
                    stays: dice.of(500..=20_000),
                }
            }
            _ => {
                let most = dice.pick(&[1, 2, 8]).min(terms.capacity);
                let gap = (terms.each() * most).max(least);
                Stream::Waiters { gap, most, patience: dice.pick(&[50_000, 400_000, 3 * SECOND]) }
            }
        }
    }
}
