//! Decisions against windows side by side.

use topup_lab::clock::Micros;

use super::{EXPIRY_STEP, in_flight::InFlight};
use crate::{rule::Rule, take::Take};

/// The window that is open, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// It began between these two.
    began: (Micros, Micros),
    /// Tokens certainly taken in it.
    certain: u64,
    /// Tokens perhaps taken in it.
    possible: u64,
}

/// Takes that fell into the window that is open, or into the next.
#[derive(Clone, Copy, Debug, Default)]
struct Between {
    tokens: u64,
    /// The first of them: it may have opened the next window.
    first: Option<Micros>,
}

/// Which of `takes` were certainly wrong where windows begin at whole multiples of their length on Redis's clock.
pub(super) fn wrong_by_clock(rule: &Rule, offset: i64, takes: &[Take]) -> Vec<bool> {
    let window = i128::from(rule.window());
    let number = |at: Micros| (i128::from(at) + i128::from(offset)).div_euclid(window);
    let first = |number: i128| {
        let begins = number * window - i128::from(offset);
        u64::try_from(begins.max(0)).unwrap_or(u64::MAX)
    };
    judge(rule, takes, |take, open, _| {
        let (early, late) =
            (number(take.sent.saturating_sub(EXPIRY_STEP)), number(take.received + EXPIRY_STEP));
        let at = first(late);
        if early != late {
            Place::Either
        } else if open.is_some_and(|open| open.began.0 == at) {
            Place::Inside
        } else {
            Place::Next(at, at)
        }
    })
}

/// Which of `takes` were certainly wrong where a window begins with its first take.
pub(super) fn wrong_by_first(rule: &Rule, takes: &[Take]) -> Vec<bool> {
    let window = rule.window();
    judge(rule, takes, |take, open, between| {
        let Some(open) = open else { return Place::Next(take.sent, take.received) };
        if take.sent > open.began.1 + window + EXPIRY_STEP {
            Place::Next(between.first.unwrap_or(take.sent), take.received)
        } else if take.sent < open.began.1 {
            Place::Around
        } else if take.received + EXPIRY_STEP < open.began.0 + window {
            Place::Inside
        } else {
            Place::Either
        }
    })
}

/// Where a take fell.
enum Place {
    /// Into the window that is open.
    Inside,
    /// Into another, which began between these two.
    Next(Micros, Micros),
    /// Into this one or the one before.
    Around,
    /// Into this one or the next.
    Either,
}

fn judge(rule: &Rule, takes: &[Take], place: impl Fn(&Take, Option<&Open>, Between) -> Place) -> Vec<bool> {
    let mut in_flight = InFlight::new(takes);
    let (mut open, mut between) = (None::<Open>, Between::default());
    let judge = |take: &Take| {
        let count = u64::from(take.count);
        if take.may_have_taken() {
            in_flight.answer(take);
        }
        match place(take, open.as_ref(), between) {
            Place::Around => {
                if let (Some(open), true) = (&mut open, take.may_have_taken()) {
                    open.possible += count;
                }
                return false;
            }
            Place::Either => {
                if take.may_have_taken() {
                    between.first.get_or_insert(take.sent);
                    between.tokens += count;
                }
                return false;
            }
            Place::Next(earliest, latest) => {
                let possible = std::mem::take(&mut between).tokens;
                open = Some(Open { began: (earliest, latest), certain: 0, possible });
            }
            Place::Inside => {}
        }
        let Some(open) = &mut open else { return false };
        if take.is_allowed() {
            let wrong = open.certain + count > rule.capacity;
            if !wrong {
                open.certain += count;
                open.possible += count;
            }
            return wrong;
        }
        if !take.is_denied() {
            open.possible += count;
            return false;
        }
        let possible = open.possible + between.tokens + in_flight.at(take.received);
        possible + count <= rule.capacity
    };
    takes.iter().map(judge).collect()
}
