//! Tokens and permits that are held for a while: limiters that are right are never called wrong, and planted faults are found.

use super::*;
use crate::take::{Answer, End};

const RULE: Rule = Rule::per_second(20, 100);

/// The fault of a limiter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    /// Tokens used beyond the estimate are not charged.
    ForgetsCharges,
    /// Debt counts as an empty bucket.
    ForgivesDebt,
    /// Unused tokens are put back twice.
    GivesBackTwice,
    /// Unused tokens stay taken.
    KeepsAll,
    /// One permit more than there are.
    OneTooMany,
    /// One release of a hundred is lost.
    LosesReleases,
    /// A holder's permits are given to another while it has them.
    EndsEarly,
}

/// Numbers at random, the same in each run.
pub(super) fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |most| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    }
}

/// The takes of one bucket, each decided somewhere between its sending and its answer, in the order of the answers.
fn play(seed: u64, mut decide: impl FnMut(Event) -> i64) -> Vec<Take> {
    let mut next = random(seed);
    let (mut takes, mut ends, mut at) = (Vec::new(), Vec::<(Micros, usize, u32)>::new(), SECOND);
    for _ in 0..4_000 {
        at += next(9_000);
        let count = 1 + next(3) as u32;
        // Holds that end before this take are told first.
        ends.sort_unstable();
        while let Some((ended, index, count)) = ends.first().copied().filter(|(ended, ..)| *ended <= at) {
            ends.remove(0);
            let used = count * next(5) as u32 / 2;
            let tokens = Some(decide(Event::Ends { at: ended, count, used }));
            let take: &mut Take = &mut takes[index];
            take.end = Some(End { sent: ended - next(300), received: ended + next(300), tokens });
        }
        let allowed = decide(Event::Asks { at, count }) > 0;
        let answer = if allowed { Answer::Allowed } else { Answer::Denied { retry_after: None } };
        let (sent, received) = (at - next(300), at + next(300));
        takes.push(Take { bucket: 0, worker: 0, count, sent, received, answer, end: None });
        if allowed {
            ends.push((at + 1_000 + next(60_000), takes.len() - 1, count));
        }
    }
    takes.sort_by_key(|take| take.received);
    takes
}

const SECOND: Micros = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A take: above 0 to allow it.
    Asks { at: Micros, count: u32 },
    /// The end of one: the tokens charged or given back, where below 0.
    Ends { at: Micros, count: u32, used: u32 },
}

fn settled(seed: u64, planted: Planted) -> Wrong {
    // Tokens, in millionths.
    let (mut level, mut last) = (20_000_000_i64, SECOND);
    let takes = play(seed, |event| {
        let (Event::Asks { at, .. } | Event::Ends { at, .. }) = event;
        level = (level + 100 * (at - last) as i64).min(20_000_000);
        last = at;
        match event {
            Event::Asks { count, .. } => {
                let allowed = level >= i64::from(count) * 1_000_000;
                level -= if allowed { i64::from(count) * 1_000_000 } else { 0 };
                i64::from(allowed)
            }
            Event::Ends { count, used, .. } if used >= count => {
                let room = (level + 20_000_000) / 1_000_000;
                let charged = i64::from(used - count).min(room.max(0));
                level -= if planted == Planted::ForgetsCharges { 0 } else { charged * 1_000_000 };
                level = if planted == Planted::ForgivesDebt { level.max(0) } else { level };
                charged
            }
            Event::Ends { count, used, .. } => {
                let back = i64::from(count - used);
                let times = [1, 2, 0][usize::from(planted == Planted::GivesBackTwice)
                    + 2 * usize::from(planted == Planted::KeepsAll)];
                level = (level + back * times * 1_000_000).min(20_000_000);
                -back
            }
        }
    });
    Oracle { ideal: Ideal::Settled, rule: RULE, offset: 0, change: None }.judge(&takes)
}

fn permits(seed: u64, planted: Planted) -> Wrong {
    let (mut held, mut ends) = (0_i64, 0_u64);
    let limit = 20 + i64::from(planted == Planted::OneTooMany);
    let takes = play(seed, |event| match event {
        Event::Asks { count, .. } => {
            // A holder that has its permits for long loses one.
            let early = i64::from(planted == Planted::EndsEarly && held > 15);
            let allowed = held - early + i64::from(count) <= limit;
            held += if allowed { i64::from(count) } else { 0 };
            i64::from(allowed)
        }
        Event::Ends { count, .. } => {
            ends += 1;
            let is_lost = planted == Planted::LosesReleases && ends % 100 == 0;
            held -= if is_lost { 0 } else { i64::from(count) };
            -i64::from(count)
        }
    });
    Oracle { ideal: Ideal::Permits, rule: RULE, offset: 0, change: None }.judge(&takes)
}

#[test]
fn what_is_settled_afterwards_is_judged() {
    for seed in 0..30 {
        assert_eq!(settled(seed, Planted::Nothing), Wrong::default(), "{seed}");
        for planted in [Planted::ForgetsCharges, Planted::ForgivesDebt, Planted::GivesBackTwice] {
            let wrong = settled(seed, planted);
            assert!(wrong.allowed > 0, "{seed}, {planted:?}: {wrong:?}");
        }
        let wrong = settled(seed, Planted::KeepsAll);
        assert!(wrong.denied > 0 && wrong.allowed == 0, "{seed}: {wrong:?}");
    }
}

#[test]
fn permits_are_judged() {
    for seed in 0..30 {
        assert_eq!(permits(seed, Planted::Nothing), Wrong::default(), "{seed}");
        for planted in [Planted::OneTooMany, Planted::EndsEarly] {
            let wrong = permits(seed, planted);
            assert!(wrong.allowed > 0 && wrong.denied == 0, "{seed}, {planted:?}: {wrong:?}");
        }
        let wrong = permits(seed, Planted::LosesReleases);
        assert!(wrong.denied > 0 && wrong.allowed == 0, "{seed}: {wrong:?}");
    }
}

/// A limiter that decides by the limit's own terms, which give twice as much, and not by the plan of the key.
#[test]
fn a_forgotten_plan_is_found() {
    let (plan, own) = (RULE, Rule { capacity: 40, ..RULE.sped_up(2) });
    for (rule, is_right) in [(plan, true), (own, false)] {
        let oracle = |rule| Oracle { ideal: Ideal::Bucket, rule, offset: 0, change: None };
        let mut perfect = Perfect::new(&oracle(rule));
        let takes = play(7, |event| match event {
            Event::Asks { at, count } => i64::from(perfect.take(at, count.into())),
            Event::Ends { .. } => 0,
        });
        assert_eq!(oracle(plan).judge(&takes) == Wrong::default(), is_right);
    }
}
