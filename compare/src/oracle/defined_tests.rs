//! Terms that change while they are used: a limiter that is right is never called wrong, and planted faults are found.

use super::*;
use crate::{oracle::held_tests::random, take::Answer};

const SECOND: Micros = 1_000_000;
const RULE: Rule = Rule::per_second(20, 100);

/// Mistakes of a limiter at a change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    /// One worker of three goes by the terms before for longer.
    OneIsLate,
    /// Every bucket is full under the new terms.
    Fills,
    /// Every bucket is empty under the new terms.
    Empties,
    /// Time before the change counts at the new rate, since the last take.
    CreditsAnew,
}

/// A bucket with the terms of `before` until the instant `at`, then with those of [`RULE`], asked for `load` tokens a second.
fn play(seed: u64, before: Rule, load: u64, planted: Planted) -> Wrong {
    let mut next = random(seed);
    let change = 5 * SECOND + next(SECOND);
    // Doubles are exact to a billionth of a token here.
    let per_micro = |rule: &Rule| rule.tokens as f64 / rule.micros as f64;
    let (mut terms, mut level, mut last) = (before, before.capacity as f64, SECOND);
    let mut is_changed = false;
    let mut late = before.capacity as f64;
    let (mut takes, mut at) = (Vec::new(), SECOND);
    while at < 10 * SECOND {
        at += next(2 * SECOND / load);
        let count = 1 + next(3) as u32;
        if at >= change && !is_changed {
            is_changed = true;
            let credited = if planted == Planted::CreditsAnew { last } else { change };
            level = (level + per_micro(&before) * (credited - last) as f64).min(before.capacity as f64);
            (terms, last) = (RULE, credited);
            level = match planted {
                Planted::Fills => terms.capacity as f64,
                Planted::Empties => 0.0,
                _ => level.min(terms.capacity as f64),
            };
            late = level;
        }
        let worker = next(3) as u32;
        let came = per_micro(&terms) * (at - last) as f64;
        // Two levels, of which one goes by the terms before for half a second more.
        let is_late =
            planted == Planted::OneIsLate && worker == 0 && (change..change + SECOND / 2).contains(&at);
        late = (late + per_micro(&before) * (at - last) as f64).min(before.capacity as f64);
        level = (level + came).min(terms.capacity as f64);
        last = at;
        let has = if is_late { late } else { level };
        let is_allowed = has + 1e-7 >= f64::from(count);
        if is_allowed {
            level -= f64::from(count);
            late -= f64::from(count);
        }
        let answer = if is_allowed { Answer::Allowed } else { Answer::Denied { retry_after: None } };
        let (sent, received) = (at - next(300), at + next(300));
        takes.push(Take { bucket: 0, worker, count, sent, received, answer, end: None });
    }
    takes.sort_by_key(|take| take.received);
    let doubt = next(2_000);
    let change = Some(Change { before, from: change - doubt, until: change + 2_000 - doubt });
    Oracle { ideal: Ideal::Defined, rule: RULE, offset: 0, change }.judge(&takes)
}

const TWICE: Rule = Rule { capacity: 40, ..RULE.sped_up(2) };
const HALF: Rule = Rule { capacity: 10, tokens: 100, micros: 2_000_000 };

#[test]
fn terms_that_change_are_judged() {
    for seed in 0..12 {
        for before in [TWICE, HALF, RULE, Rule { capacity: 40, ..HALF }, Rule { capacity: 7, ..TWICE }] {
            for load in [40, 100, 400] {
                assert_eq!(
                    play(seed, before, load, Planted::Nothing),
                    Wrong::default(),
                    "{seed} {before:?} {load}"
                );
            }
        }
    }
}

#[test]
fn mistakes_at_a_change_are_found() {
    let allows = |wrong: Wrong| wrong.allowed > 0;
    let denies = |wrong: Wrong| wrong.denied > 0;
    for (before, load, planted, finds) in [
        // Twice the rate for half a second more.
        (TWICE, 400, Planted::OneIsLate, allows as fn(Wrong) -> bool),
        (HALF, 400, Planted::Fills, allows),
        (TWICE, 400, Planted::Fills, allows),
        (TWICE, 100, Planted::Empties, denies),
        (HALF, 20, Planted::Empties, denies),
        (Rule { tokens: 100, micros: 60 * SECOND, ..RULE }, 150, Planted::CreditsAnew, allows),
    ] {
        let found = (0..30).filter(|seed| finds(play(*seed, before, load, planted))).count();
        assert!(found > 4, "{planted:?} after {before:?}: {found} of 30");
    }
}
