//! Decisions against a bucket that fills continuously.

use super::{books::Books, credit::Credit, grace, in_flight::InFlight, windows::Windows};
use crate::{
    rule::Rule,
    take::{Answer, Take},
};

/// Which entries of `books` were certainly wrong.
pub(super) fn wrong(rule: &Rule, books: &Books) -> Vec<bool> {
    judge(Credit::of(*rule, None), books, Takes::Own)
}

/// Where the tokens of a bucket's takes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// From the bucket.
    Own,
    /// From the bucket, and what it lacks from elsewhere.
    OwnFirst,
}

/// The same under terms that may change.
pub(super) fn judge(credit: Credit, books: &Books, from: Takes) -> Vec<bool> {
    let (mut windows, mut in_flight) = (Windows::of(credit, books), InFlight::new(&books.entries));
    let unit = credit.unit();
    // The latest instant at which it can be full, as what has come by then.
    let mut full = 0_i128;
    let mut back = 0;
    let mut change = credit.change();
    let judge = |(place, take): (usize, &Take)| {
        if let Some(change) = change.take_if(|change| take.received >= change.from) {
            // It keeps its tokens, up to what it holds from then on.
            let then = credit.least(change.until);
            full = (full.max(then) + credit.grows_by(&change)).max(then);
        }
        while let Some(came) = books.returns.get(back).filter(|came| came.received <= take.received) {
            // Takes that were answered since the sending may have been decided after it.
            let after = books.entries[..place].iter().rev().take_while(|entry| entry.received > came.sent);
            let after: i128 =
                after.filter(|entry| entry.may_have_taken()).map(|entry| i128::from(entry.count)).sum();
            let least = credit.least(came.received) + after * unit;
            full = (full - i128::from(came.count) * unit).max(least);
            back += 1;
        }
        let count = i128::from(take.count) * unit;
        let taken = |full: i128| {
            let now = credit.least(take.received);
            let full = full.max(now) + count;
            if from == Takes::OwnFirst { full.min(now + credit.capacity(take.received)) } else { full }
        };
        match take.answer {
            Answer::Allowed | Answer::Charged => {
                in_flight.answer(take);
                // A charge that was answered since the sending may have come after the take, into debt.
                let since =
                    books.entries[..place].iter().rev().take_while(|entry| entry.received > take.sent);
                let debt = match take.answer {
                    Answer::Charged => credit.capacity(take.sent) / unit,
                    _ => since.filter(|entry| entry.is_charge()).map(|entry| i128::from(entry.count)).sum(),
                };
                let wrong = from == Takes::Own && windows.enter(place, take).is_certain(debt);
                if wrong {
                    windows.forgive(place);
                } else {
                    full = taken(full);
                }
                wrong
            }
            Answer::Failed => {
                in_flight.answer(take);
                full = taken(full);
                false
            }
            Answer::Denied { .. } => {
                let other = i128::from(in_flight.at(take.received)) * unit;
                let full = if other > 0 { full.max(credit.least(take.received)) + other } else { full };
                // Tokens that were put back since the sending may have come after the decision.
                let late = books.returns[..back].iter().rev().take_while(|came| came.received > take.sent);
                let late: i128 = late.map(|came| i128::from(came.count) * unit).sum();
                // Since it was last full, at most a window has passed of which the clocks know different things.
                let full = full + late + i128::from(grace(credit.window())) * credit.fastest();
                let now = credit.least(take.sent);
                let is_sure = credit.change().is_none_or(|change| !change.is_around(take));
                is_sure && full.max(now) + count <= now + credit.capacity(take.sent)
            }
        }
    };
    books.entries.iter().enumerate().map(judge).collect()
}
