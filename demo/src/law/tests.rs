//! The check must find every excess, and none that is not there.

use proptest::prelude::*;
use topup_lab::clock::SECOND;

use super::*;

fn budget() -> Budget {
    Budget::new(10, 5)
}

/// The takes of a perfect limiter that is asked all the time for 20 s.
fn perfect() -> Vec<Take> {
    let instants = (0..10).map(|_| SECOND).chain((1..=100).map(|n| SECOND + n * 200_000));
    instants.map(|at| Take { sent: at - 50, received: at + 150 }).collect()
}

fn at(instant: Micros) -> Take {
    Take { sent: instant, received: instant }
}

#[test]
fn a_perfect_limiter_holds_the_law() {
    let excess = worst_excess(&perfect(), &budget());
    assert!((-0.01..=0.0).contains(&excess), "{excess}");
}

#[test]
fn one_take_too_many_is_found() {
    let mut takes = perfect();
    takes.push(at(7 * SECOND));
    let excess = worst_excess(&takes, &budget());
    assert!((0.99..=1.0).contains(&excess), "{excess}");
}

#[test]
fn a_second_burst_is_found() {
    let mut takes = perfect();
    takes.extend((0..11).map(|n| at(9 * SECOND + n * 1_000)));
    let excess = worst_excess(&takes, &budget());
    assert!((10.9..=11.0).contains(&excess), "{excess}");
}

#[test]
fn a_new_rate_before_its_time_is_found() {
    let takes: Vec<Take> =
        (0..10).map(|_| at(SECOND)).chain((1..400).map(|n| at(SECOND + n * 10_000))).collect();
    let excess = |instant| worst_excess(&takes, &budget().then(instant, 100));
    assert!(excess(SECOND) <= 1e-6, "{}", excess(SECOND));
    assert!(excess(SECOND + 300_000) > 20.0);
}

#[test]
fn slow_replies_make_up_no_excess() {
    // The machine hiccups for three seconds, and the replies of that time come all at once.
    let hiccup = 5 * SECOND..8 * SECOND;
    let mut takes = perfect();
    takes
        .iter_mut()
        .filter(|take| hiccup.contains(&take.received))
        .for_each(|take| take.received = hiccup.end);
    assert!(worst_excess(&takes, &budget()) <= 0.0);
    let ends_only: Vec<Take> = takes.iter().map(|take| at(take.received)).collect();
    let excess = worst_excess(&ends_only, &budget());
    assert!(excess > 1.0, "the test should tell the two apart: {excess}");
}

#[test]
fn no_takes_no_window() {
    assert_eq!(worst_excess(&[], &budget()), f64::NEG_INFINITY);
}

proptest! {
    #[test]
    fn the_worst_window_is_that_of_a_look_at_every_window(
        takes in prop::collection::vec((0..5_000_000_u64, 0..400_000_u64), 1..60),
        raise in 0..5_000_000_u64,
    ) {
        let takes: Vec<Take> =
            takes.into_iter().map(|(sent, reply)| Take { sent, received: sent + reply }).collect();
        let budget = budget().then(raise, 40);
        let excess = |from, until| {
            let inside = takes.iter().filter(|take| take.sent >= from && take.received <= until).count();
            (inside > 0).then(|| inside as f64 - 10.0 - budget.credit(from, until))
        };
        let mut expected = f64::NEG_INFINITY;
        for from in takes.iter().map(|take| take.sent) {
            for until in takes.iter().map(|take| take.received).filter(|until| *until >= from) {
                expected = excess(from, until).map_or(expected, |excess| expected.max(excess));
            }
        }
        let found = worst_excess(&takes, &budget);
        prop_assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }
}
