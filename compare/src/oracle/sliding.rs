//! Decisions against a window that slides.

use topup_lab::clock::Micros;

use super::{EXPIRY_STEP, grace, in_flight::InFlight};
use crate::{rule::Rule, take::Take};

/// Which of `takes`, in the order of their answers, were certainly wrong.
pub(super) fn wrong(rule: &Rule, takes: &[Take]) -> Vec<bool> {
    let window = rule.window();
    let slack = grace(window) + EXPIRY_STEP;
    let mut in_flight = InFlight::new(takes);
    let (mut kept, mut unsure) = (Vec::new(), Vec::new());
    let judge = |take: &Take| {
        let count = u64::from(take.count);
        if take.is_allowed() {
            in_flight.answer(take);
            let begins = (take.received + slack).saturating_sub(window);
            let wrong = tokens(&kept, begins, |kept| kept.sent > begins) + count > rule.capacity;
            if !wrong {
                kept.push(*take);
            }
            return wrong;
        }
        if !take.is_denied() {
            in_flight.answer(take);
            unsure.push(*take);
            return false;
        }
        let begins = take.sent.saturating_sub(window + slack);
        let unsure = tokens(&unsure, begins, |_| true);
        unsure + tokens(&kept, begins, |_| true) + in_flight.at(take.received) + count <= rule.capacity
    };
    takes.iter().map(judge).collect()
}

/// Tokens of those answered after `since`, as far as they count.
fn tokens(kept: &[Take], since: Micros, counts: impl Fn(&Take) -> bool) -> u64 {
    let within = kept.iter().rev().take_while(|take| take.received > since);
    within.filter(|take| counts(take)).map(|take| u64::from(take.count)).sum()
}
