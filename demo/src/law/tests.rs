//! The check of the law must be able to fail, and must not cry wolf.

use proptest::prelude::*;

use super::*;
use crate::{clock::SECOND, plan::Limit};

/// Capacity 10, 5 tokens a second, so half a token each tick.
fn budget() -> Budget {
    Budget::new(&Limit { name: "a", keys: &[], capacity: 10, rate: 5, load: 3.0 })
}

/// What a perfect limiter decides in 20 s when asked all the time.
fn perfect() -> Vec<Take> {
    let instants = (0..10).map(|_| SECOND).chain((1..=100).map(|n| SECOND + n * 200_000));
    instants.map(|at| Take { sent: at - 50, received: at + 150 }).collect()
}

fn at(instant: Micros) -> Take {
    Take { sent: instant, received: instant }
}

#[test]
fn a_perfect_limiter_holds_the_law() {
    let worst = worst_window(&perfect(), &budget()).unwrap();
    assert!(worst.held() && worst.excess > -0.01, "{worst:?}");
}

#[test]
fn one_take_too_many_breaks_it() {
    let mut takes = perfect();
    takes.push(at(7 * SECOND));
    let worst = worst_window(&takes, &budget()).unwrap();
    assert!(!worst.held(), "{worst:?}");
    assert!((0.99..=1.0).contains(&worst.excess), "{worst:?}");
}

#[test]
fn a_second_burst_breaks_it_in_the_window_around_it() {
    let mut takes = perfect();
    takes.extend((0..11).map(|n| at(9 * SECOND + n * 1_000)));
    let worst = worst_window(&takes, &budget()).unwrap();
    assert!(!worst.held(), "{worst:?}");
    assert!(worst.excess > 10.9 && worst.until <= 9 * SECOND + 10_000 + 200_000, "{worst:?}");
}

#[test]
fn a_new_rate_before_its_time_breaks_it() {
    let takes: Vec<Take> =
        (0..10).map(|_| at(SECOND)).chain((0..400).map(|n| at(SECOND + n * 10_000))).collect();
    let raised = |instant| budget().then(instant, 100);
    assert!(worst_window(&takes, &raised(SECOND)).unwrap().held());
    assert!(!worst_window(&takes, &raised(SECOND + 300_000)).unwrap().held());
}

#[test]
fn slow_replies_make_up_no_excess() {
    // The machine hiccups for three seconds: the replies of that time are heard all at once.
    let hiccup = 5 * SECOND..8 * SECOND;
    let mut takes = perfect();
    takes
        .iter_mut()
        .filter(|take| hiccup.contains(&take.received))
        .for_each(|take| take.received = hiccup.end);
    assert!(worst_window(&takes, &budget()).unwrap().held());
    let ends_only: Vec<Take> = takes.iter().map(|take| at(take.received)).collect();
    assert!(!worst_window(&ends_only, &budget()).unwrap().held(), "the test should tell the two apart");
}

#[test]
fn no_takes_no_window() {
    assert_eq!(worst_window(&[], &budget()), None);
}

proptest! {
    #[test]
    fn it_finds_what_looking_at_every_window_finds(
        takes in prop::collection::vec((0..5_000_000_u64, 0..400_000_u64), 1..60),
        raise in 0..5_000_000_u64,
    ) {
        let takes: Vec<Take> =
            takes.into_iter().map(|(sent, reply)| Take { sent, received: sent + reply }).collect();
        let budget = budget().then(raise, 40);
        let mut expected = f64::NEG_INFINITY;
        for from in takes.iter().map(|take| take.sent) {
            for until in takes.iter().map(|take| take.received).filter(|until| *until >= from) {
                let inside = takes.iter().filter(|take| take.sent >= from && take.received <= until).count();
                let over = inside as f64 - 10.0 - budget.credit(from, until) - budget.tick_credit(until);
                // A window without a take breaks no law.
                expected = if inside > 0 { expected.max(over) } else { expected };
            }
        }
        let found = worst_window(&takes, &budget).unwrap();
        prop_assert!((found.excess - found.room - expected).abs() < 1e-6, "{found:?} is not {expected}");
        let counted = found.allowed as f64 - 10.0 - budget.credit(found.from, found.until);
        prop_assert!((counted - found.excess).abs() < 1e-6, "{found:?} counts {counted}");
    }
}
