//! Penalties: a limiter that is right is never called wrong, and planted faults are found.

use super::*;
use crate::{
    oracle::held_tests::random,
    penalty::{Blocks, Penalty},
    take::Answer,
};

const SECOND: Micros = 1_000_000;
const RULE: Rule = Rule::per_second(5, 10);

/// Mistakes of a penalty.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    /// It blocks after half as many denied takes.
    TooEarly,
    /// It never blocks.
    Never,
    /// Takes that are denied within a block count.
    CountsBlocked,
    /// Each block is as long as the first.
    NeverGrows,
    /// A block is three times as long as the one before.
    GrowsTooFast,
    /// A worker does not learn of blocks.
    OneIsDeaf,
    /// A block ends half a second before its time.
    EndsEarly,
}

/// A worker: takes denied since its last hand-over, the next one, its next poll, and the end of the last block it knows.
#[derive(Default)]
struct Worker {
    denied: u64,
    hands_over: Micros,
    polls: Micros,
    known: Micros,
}

/// A key that is asked for a while and left alone for a while, by three workers. They hand denied takes over each second, and
/// learn of blocks four times a second.
fn play(seed: u64, is_calm: bool, planted: Planted) -> Wrong {
    let (mut next, mut perfect) = (random(seed), Perfect::new(&oracle(Ideal::Bucket)));
    let penalty = match planted {
        Planted::TooEarly => Penalty { after: PENALTY.after / 2, ..PENALTY },
        Planted::Never => Penalty { after: u64::MAX, ..PENALTY },
        Planted::NeverGrows => Penalty { factor: 1, ..PENALTY },
        Planted::GrowsTooFast => Penalty { factor: 3, ..PENALTY },
        _ => PENALTY,
    };
    let mut redis = Blocks::default();
    let mut workers = [0; 3].map(|_| Worker {
        hands_over: SECOND + next(SECOND),
        polls: SECOND + next(SECOND / 4),
        ..Worker::default()
    });
    let (mut takes, mut at) = (Vec::new(), SECOND);
    let (mut load, mut until) = (60, 4 * SECOND);
    while at < 60 * SECOND {
        at += next(2 * SECOND / load);
        if at > until {
            // Seldom enough that no denied take counts, or often.
            load = if is_calm {
                [2, 12, 25, 100, 300][next(5) as usize]
            } else {
                [9, 25, 40, 60][next(4) as usize]
            };
            until = at + SECOND + next(8 * SECOND);
            at += if is_calm && next(3) == 0 { next(12 * SECOND) } else { 0 };
        }
        // Hand-overs and polls come in their order, whatever is asked meanwhile.
        while let Some(worker) = workers.iter_mut().min_by_key(|worker| worker.hands_over.min(worker.polls))
            && worker.hands_over.min(worker.polls) <= at
        {
            let now = worker.hands_over.min(worker.polls);
            if worker.polls == now {
                worker.known = redis.end(now).unwrap_or(worker.known);
                worker.polls += SECOND / 4 - next(1_000);
                continue;
            }
            let denied = std::mem::take(&mut worker.denied);
            for _ in 0..denied {
                if redis.end(now).is_none() {
                    redis.deny(&penalty, now);
                }
            }
            worker.hands_over += SECOND - next(1_000);
        }
        let worker = next(3) as u32;
        let Worker { denied, known, .. } = &mut workers[worker as usize];
        let is_deaf = planted == Planted::OneIsDeaf && worker == 1;
        let early = if planted == Planted::EndsEarly { SECOND / 2 } else { 0 };
        let sent = at - next(300);
        let answer = if *known > at + early && !is_deaf {
            *denied += u64::from(planted == Planted::CountsBlocked);
            Answer::Denied { retry_after: Some(*known - at + next(4_000)) }
        } else if perfect.take(at, 1) {
            Answer::Allowed
        } else {
            *denied += 1;
            Answer::Denied { retry_after: perfect.again(at, 1).map(|again| again - at) }
        };
        takes.push(Take { bucket: 0, worker, count: 1, sent, received: at + next(300), answer, end: None });
    }
    takes.sort_by_key(|take| take.received);
    oracle(Ideal::Penalized).judge(&takes)
}

const fn oracle(ideal: Ideal) -> Oracle {
    Oracle { ideal, rule: RULE, offset: 0, change: None }
}

#[test]
fn blocks_are_judged() {
    for seed in 0..40 {
        assert_eq!(play(seed, seed % 2 == 0, Planted::Nothing), Wrong::default(), "{seed}");
    }
}

#[test]
fn mistakes_of_penalties_are_found() {
    for planted in [
        Planted::TooEarly,
        Planted::Never,
        Planted::CountsBlocked,
        Planted::NeverGrows,
        Planted::GrowsTooFast,
        Planted::OneIsDeaf,
        Planted::EndsEarly,
    ] {
        let found = (0..20).filter(|seed| play(*seed, false, planted) != Wrong::default()).count();
        assert!(found > 4, "{planted:?}: {found} of 20");
    }
}
