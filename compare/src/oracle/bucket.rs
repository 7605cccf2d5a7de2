//! Decisions against a bucket that fills continuously.

use super::{
    grace,
    in_flight::InFlight,
    windows::{Windows, places},
};
use crate::{rule::Rule, take::Take};

/// Which of `takes`, in the order of their answers, were certainly wrong.
pub(super) fn wrong(rule: &Rule, takes: &[Take]) -> Vec<bool> {
    let (mut windows, places) = (Windows::new(*rule, takes.len()), places(takes));
    let mut in_flight = InFlight::new(takes);
    let (tokens, micros) = (i128::from(rule.tokens), i128::from(rule.micros));
    // The latest instant at which it can be full, times `tokens`.
    let mut full = 0_i128;
    let judge = |(take, place): (&Take, usize)| {
        let count = i128::from(take.count) * micros;
        if take.is_allowed() {
            in_flight.answer(take);
            let wrong = windows.enter(place, take).is_certain(rule);
            if wrong {
                windows.forgive(place);
            } else {
                full = full.max(i128::from(take.received) * tokens) + count;
            }
            return wrong;
        }
        if !take.is_denied() {
            in_flight.answer(take);
            full = full.max(i128::from(take.received) * tokens) + count;
            return false;
        }
        let other = i128::from(in_flight.at(take.received)) * micros;
        let taken = if other > 0 { full.max(i128::from(take.received) * tokens) + other } else { full };
        // Since it was last full, at most a window has passed of which the clocks know different things.
        let taken = taken + i128::from(grace(rule.window())) * tokens;
        let now = i128::from(take.sent) * tokens;
        taken.max(now) + count <= now + i128::from(rule.capacity) * micros
    };
    takes.iter().zip(places).map(judge).collect()
}
