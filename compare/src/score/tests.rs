//! A comparison that cannot fail is worth nothing: limiters with planted faults, each named by the right figure.

use super::*;
use crate::{
    oracle::{Ideal, Perfect},
    rule::Rule,
    take::Answer,
};

const RULE: Rule = Rule::per_second(20, 100);
const ORACLE: Oracle = Oracle { ideal: Ideal::Bucket, rule: RULE, offset: 0, change: None };

/// Takes of `limiter`, one every `every` µs for `seconds`, each answered within 80 µs.
fn play(every: Micros, seconds: u64, mut limiter: impl FnMut(Micros) -> Answer) -> Vec<Take> {
    let ask = |at: Micros| Take {
        bucket: 0,
        worker: 0,
        count: 1,
        sent: at,
        received: at + 80,
        answer: limiter(at + 40),
        end: None,
    };
    (SECOND..SECOND * (seconds + 1)).step_by(every as usize).map(ask).collect()
}

fn score(takes: &[Take], promises: bool) -> Score {
    let until = takes.last().unwrap().received;
    Score::of(&Played { oracle: ORACLE, from: SECOND, until, promises }, takes)
}

fn answer(allowed: bool) -> Answer {
    if allowed { Answer::Allowed } else { Answer::Denied { retry_after: None } }
}

/// Nothing is wrong with it.
#[track_caller]
fn is_clean(score: &Score) {
    assert_eq!((score.wrongly_allowed, score.wrongly_denied, score.failed), (0, 0, 0), "{score:?}");
    assert!(score.excess.tokens == 0.0 && score.starved_ms == 0.0, "{score:?}");
    assert!((score.share() - 1.0).abs() < 0.001, "{score:?}");
}

#[test]
fn a_perfect_limiter_has_no_fault() {
    for every in [20_000, 10_000, 9_999, 7_000, 2_000, 500] {
        let mut perfect = Perfect::new(&ORACLE);
        is_clean(&score(&play(every, 30, |at| answer(perfect.take(at, 1))), false));
    }
}

#[test]
fn one_token_too_many_in_ten_thousand_is_found() {
    let (mut perfect, mut allowed) = (Perfect::new(&ORACLE), 0);
    let takes = play(2_000, 205, |at| {
        let extra = allowed == 10_000;
        let allow = perfect.take(at, 1) || extra;
        allowed += u64::from(allow);
        answer(allow)
    });
    let score = score(&takes, false);
    assert_eq!((score.wrongly_allowed, score.wrongly_denied), (1, 0), "{score:?}");
    assert!((0.8..=1.0).contains(&score.excess.tokens), "{:?}", score.excess);
    assert!(score.share() < 1.000_1, "too little to be seen in a sum: {}", score.share());
}

#[test]
fn a_limiter_that_is_20_ms_late_is_found() {
    let mut perfect = Perfect::new(&ORACLE);
    let takes = play(2_000, 20, |at| answer(perfect.take(at - 20_000, 1)));
    // Only a clock that lags behind: as many tokens, and no one gets any too early.
    is_clean(&score(&takes, false));

    // But one that promises by the right clock what it gives by that one:
    let oracle = Oracle { rule: Rule::per_second(2, 10), ..ORACLE };
    let mut perfect = Perfect::new(&oracle);
    let takes = play(1_000, 20, |at| {
        if perfect.take(at - 20_000, 1) {
            return Answer::Allowed;
        }
        Answer::Denied { retry_after: perfect.again(at, 1).map(|again| again - at) }
    });
    let played = Played { oracle, from: SECOND, until: 21 * SECOND, promises: true };
    let promises = Score::of(&played, &takes).promises.unwrap();
    assert!((19_000.0..=21_000.0).contains(&promises.late.unwrap().p50), "{promises:?}");

    // ... and one that, once empty, looks again 20 ms after a token has come:
    let (mut perfect, mut blind) = (Perfect::new(&ORACLE), 0);
    let takes = play(1_000, 20, |at| {
        if at >= blind && perfect.take(at, 1) {
            return Answer::Allowed;
        }
        let again = perfect.again(at, 1).unwrap();
        blind = if at >= blind { again + 20_000 } else { blind };
        Answer::Denied { retry_after: Some(again - at) }
    });
    let score = score(&takes, true);
    let promises = score.promises.unwrap();
    assert!((15_000.0..=21_000.0).contains(&promises.late.unwrap().p99), "{promises:?}");
    assert!((15.0..=21.0).contains(&score.starved_ms), "{}", score.starved_ms);
    assert!(score.wrongly_denied > 1_000, "{}", score.wrongly_denied);
    assert_eq!(score.wrongly_allowed, 0);
}

#[test]
fn a_limiter_that_loses_remainders_is_found() {
    let (mut tokens, mut credited) = (20, SECOND);
    let takes = play(7_000, 60, |at| {
        // Whole tokens only, and the time that is left over forgotten.
        tokens = (tokens + (at - credited) / 10_000).min(20);
        credited = if at - credited >= 10_000 { at } else { credited };
        let allow = tokens > 0;
        tokens -= u64::from(allow);
        answer(allow)
    });
    let score = score(&takes, false);
    assert!(score.share() < 0.8, "{}", score.share());
    assert!(score.wrongly_denied > 1_000 && score.wrongly_allowed == 0, "{score:?}");
}

#[test]
fn a_limiter_that_counts_refusals_is_found() {
    let oracle = Oracle { ideal: Ideal::Sliding, ..ORACLE };
    for (every, least, most) in [(20_000, 0.999, 1.0), (2_000, 0.0, 0.2)] {
        let mut asked = std::collections::VecDeque::new();
        let takes = play(every, 20, |at| {
            while asked.front().is_some_and(|first| first + RULE.window() <= at) {
                asked.pop_front();
            }
            asked.push_back(at);
            answer(asked.len() <= 20)
        });
        let played = Played { oracle, from: SECOND, until: 21 * SECOND, promises: false };
        let score = Score::of(&played, &takes);
        assert!((least..=most).contains(&score.share()), "{every}: {}", score.share());
        assert_eq!(score.wrongly_denied > 1_000, most < 1.0, "{}", score.wrongly_denied);
    }
}

#[test]
fn two_windows_back_to_back_are_an_excess_of_one() {
    let oracle = Oracle { ideal: Ideal::Fixed, ..ORACLE };
    let mut perfect = Perfect::new(&oracle);
    // 20 in 200 ms: all of them at the end of one window, and again at the beginning of the next.
    let instants = (0..40).map(|i| 1_200_000 - 3_000 * 20 + 3_000 * i);
    let takes: Vec<Take> = instants
        .map(|at| Take {
            bucket: 0,
            worker: 0,
            count: 1,
            sent: at,
            received: at,
            answer: answer(perfect.take(at, 1)),
            end: None,
        })
        .collect();
    let played = Played { oracle, from: SECOND, until: 2 * SECOND, promises: false };
    let score = Score::of(&played, &takes);
    assert_eq!((score.admitted, score.wrongly_allowed, score.wrongly_denied), (40, 0, 0));
    assert!((8.0..9.0).contains(&score.excess.tokens), "{:?}", score.excess);
}

#[test]
fn a_clumped_limiter_is_uneven_and_a_smooth_one_is_not() {
    let mut perfect = Perfect::new(&ORACLE);
    let smooth = score(&play(1_000, 20, |at| answer(perfect.take(at, 1))), false);
    assert!(smooth.unevenness.unwrap() < 0.1, "{smooth:?}");
    let (mut tokens, mut tick) = (20, 0);
    let clumped = score(
        &play(1_000, 20, |at| {
            if at / 200_000 > tick {
                (tick, tokens) = (at / 200_000, 20);
            }
            let allow = tokens > 0;
            tokens -= u64::from(allow);
            answer(allow)
        }),
        false,
    );
    assert!(clumped.unevenness.unwrap() > 0.5, "{:?}", clumped.unevenness);
}

#[test]
fn answers_that_never_came_are_neither_allowed_nor_denied() {
    let mut turn = 0;
    let takes = play(20_000, 2, |_| {
        turn += 1;
        if turn % 10 == 0 { Answer::Failed } else { Answer::Allowed }
    });
    let score = score(&takes, false);
    assert_eq!((score.failed, score.denied, score.admitted), (10, 0, 90));
    assert!((score.share() - 0.9).abs() < 0.001);
}
