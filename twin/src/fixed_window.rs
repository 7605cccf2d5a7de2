//! The twin of `fixed_window.lua`.

use topup_wire::{bucket::Operation, limit::Algorithm, reply::Settled};

use crate::{
    apply::{State, apply, unknown, without_debt, writes},
    record::Record,
};

/// The window under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    /// The instant it is over, a whole ms.
    pub over: u64,
    /// Tokens taken in it.
    pub taken: u64,
}

/// A ms, in µs.
const MS: u64 = 1_000;

// === impl FixedWindow ===

impl State for FixedWindow {
    const ALGORITHM: Algorithm = Algorithm::FixedWindow;

    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let Some((length, aligned)) = record.window() else { return unknown(now) };
        let ms = now - now % MS;
        let begun = if aligned { (ms + MS) - (ms + MS) % length } else { ms };
        let latest = (begun + length).next_multiple_of(MS);
        let held = state.filter(|held| held.over > now);
        let window = held.unwrap_or(Self { over: latest, taken: 0 });

        let tokens = |taken: u64| record.capacity.saturating_sub(taken) as i64;
        let mut settled = apply(record.capacity, tokens(window.taken), without_debt(operation), now);
        let taken = match operation {
            Operation::Reset => 0,
            Operation::Refund(count) => window.taken.saturating_sub(count),
            _ => window.taken + settled.granted,
        };
        settled.tokens = tokens(taken);
        let looks = settled.missing > 0 || !matches!(operation, Operation::Take(_) | Operation::Share(_));
        let over = if looks { window.over.min(latest) } else { window.over };
        let moved = over < window.over;
        if writes(operation, settled.verdict, moved) {
            *state = (taken > 0).then_some(Self { over, taken });
        }
        if settled.missing > 0 {
            settled.wait = over - now;
        }
        settled.into()
    }

    /// The key is there in the ms of its expiry, too.
    fn expiry(&self, _: &Record) -> u64 {
        self.over / MS - 1
    }
}
