//! The twin of `fixed_window.lua`.

use topup_wire::{bucket::Operation, limit::Algorithm, reply::Settled};

use crate::{
    apply::{State, apply, unknown, without_debt, writes},
    record::Record,
};

/// The window under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    /// The instant it begins.
    pub begun: u64,
    /// The instant it is over.
    pub over: u64,
    /// Tokens taken in it.
    pub taken: u64,
}

// === impl Window ===

impl State for FixedWindow {
    const ALGORITHM: Algorithm = Algorithm::FixedWindow;

    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let Some((length, aligned)) = record.window() else { return unknown(now) };
        let beginning = |at: u64| if aligned { at - at % length } else { at };
        let from = |begun: u64, taken: u64| Self { begun, over: begun + length, taken };
        let (mut window, mut moved) = (*state, false);
        if let Some(held) =
            window.filter(|held| held.over - held.begun != length || beginning(held.begun) != held.begun)
        {
            let begun = if aligned { beginning(record.since) } else { held.begun };
            moved = held.over > record.since;
            window = moved.then_some(from(begun, held.taken));
        }
        if let Some(ahead) = window.filter(|held| held.begun > now) {
            (window, moved) = (Some(from(beginning(now), ahead.taken)), true);
        }
        let window = window.filter(|held| held.over > now).unwrap_or(from(beginning(now), 0));

        let tokens = record.capacity.saturating_sub(window.taken);
        let mut settled = apply(record.capacity, tokens as i64, without_debt(operation), now);
        if writes(operation, settled.verdict, moved) {
            let taken = record.missing(settled.tokens);
            *state = (taken > 0).then_some(Self { taken, ..window });
        }
        if settled.missing > 0 {
            settled.wait = window.over - now;
        }
        settled.into()
    }

    fn expiry(&self, _: &Record) -> u64 {
        self.over.div_ceil(1_000)
    }
}
