//! The oracle against its own definition, and against limiters that are right or wrong by construction.

use proptest::prelude::*;

use super::*;
use crate::take::Answer;

fn rules() -> impl Strategy<Value = Rule> {
    (1..=12_u64, 1..=200_u64, prop_oneof![Just(1_000_000_u64), Just(7_000_000), Just(50_000)])
        .prop_map(|(capacity, tokens, micros)| Rule { capacity, tokens, micros })
}

fn ideals() -> impl Strategy<Value = Ideal> {
    prop_oneof![Just(Ideal::Bucket), Just(Ideal::Sliding), Just(Ideal::Fixed), Just(Ideal::FixedByFirst)]
}

/// Takes as pauses, ways there, ways back and counts.
fn asks() -> impl Strategy<Value = Vec<(u64, u64, u64, u32)>> {
    prop::collection::vec((0..30_000_u64, 0..400_u64, 0..400_u64, 1..=3_u32), 1..300)
}

/// Decided in the order given, at instants that `takes` only enclose.
fn decide(
    oracle: &Oracle,
    asks: &[(u64, u64, u64, u32)],
    mut bend: impl FnMut(usize, bool) -> bool,
) -> Vec<Take> {
    let (mut perfect, mut at) = (Perfect::new(oracle), 10 * 1_000_000);
    let mut takes: Vec<Take> = Vec::new();
    for (index, &(pause, there, back, count)) in asks.iter().enumerate() {
        let count = count.min(oracle.rule.capacity as u32);
        at += pause;
        let allowed = bend(index, perfect.take(at, u64::from(count)));
        let answer = if allowed { Answer::Allowed } else { Answer::Denied { retry_after: None } };
        takes.push(Take {
            bucket: 0,
            worker: 0,
            count,
            sent: at - there,
            received: at + back,
            answer,
            end: None,
        });
    }
    takes.sort_by_key(|take| take.received);
    takes
}

/// Tokens of the takes that were allowed after `since`.
fn tokens_since(takes: &[Take], since: u64) -> u64 {
    let allowed = takes.iter().filter(|take| take.is_allowed() && take.sent > since);
    allowed.map(|take| u64::from(take.count)).sum()
}

proptest! {
    /// However its decisions overlap, a perfect limiter is never called wrong.
    #[test]
    fn what_is_right_is_never_called_wrong(rule in rules(), ideal in ideals(), asks in asks()) {
        let oracle = Oracle { ideal, rule, offset: 0, change: None };
        let takes = decide(&oracle, &asks, |_, allowed| allowed);
        prop_assert_eq!(oracle.judge(&takes), Wrong::default());
    }

    /// A take without an answer may have had its tokens, or not: neither makes another decision wrong.
    #[test]
    fn what_got_no_answer_may_have_been_carried_out(
        rule in rules(), ideal in ideals(), asks in asks(), lost in prop::collection::vec(any::<bool>(), 300),
    ) {
        let oracle = Oracle { ideal, rule, offset: 0, change: None };
        let mut takes = decide(&oracle, &asks, |_, allowed| allowed);
        for (take, lost) in takes.iter_mut().zip(lost) {
            if lost && take.is_allowed() {
                take.answer = Answer::Failed;
            }
        }
        prop_assert_eq!(oracle.judge(&takes).denied, 0);
    }

    /// A single decision turned round is found, unless it was made about when the answer changes.
    #[test]
    fn one_decision_turned_round_is_found(
        rule in rules(), sliding in any::<bool>(), asks in asks(), which in any::<prop::sample::Index>(),
    ) {
        let ideal = if sliding { Ideal::Sliding } else { Ideal::Bucket };
        let oracle = Oracle { ideal, rule, offset: 0, change: None };
        let which = which.index(asks.len());
        let (mut perfect, mut at, mut takes) = (Perfect::new(&oracle), 10_000_000, Vec::new());
        let mut turned = None;
        for (index, (pause, _, _, count)) in asks.into_iter().enumerate() {
            at += pause;
            let count = count.min(rule.capacity as u32);
            // A perfect window forgets what has left it, and cannot be asked about an earlier instant.
            let in_window = |at: u64| {
                let since = at.saturating_sub(rule.window());
                tokens_since(&takes, since) + u64::from(count) <= rule.capacity
            };
            let near = |at| if sliding { in_window(at) } else { perfect.clone().take(at, u64::from(count)) };
            let clear = near(at - 4_000) == near(at + 4_000);
            let mut allowed = perfect.take(at, u64::from(count));
            if index == which {
                allowed = !allowed;
                turned = clear.then_some((allowed, count));
            }
            let answer = if allowed { Answer::Allowed } else { Answer::Denied { retry_after: None } };
            takes.push(Take { bucket: 0, worker: 0, count, sent: at, received: at, answer, end: None });
        }
        let wrong = oracle.judge(&takes);
        match turned {
            Some((true, count)) => prop_assert_eq!((wrong.allowed, wrong.denied), (u64::from(count), 0)),
            // The tokens it was not given are there for later takes, which are told that they are not.
            Some((false, _)) => prop_assert!(wrong.denied >= 1 && wrong.allowed == 0, "{wrong:?}"),
            None => {}
        }
    }

    /// The worst window is the one that looking at all of them finds.
    #[test]
    fn the_worst_window_is_the_worst_of_all(rule in rules(), mut asks in asks()) {
        asks.truncate(40);
        let oracle = Oracle { ideal: Ideal::Bucket, rule, offset: 0, change: None };
        let takes = decide(&oracle, &asks, |_, _| true);
        let found = worst_of(&rule, &takes).iter().map(Worst::tokens).fold(f64::MIN, f64::max);
        let mut worst = f64::MIN;
        for first in &takes {
            for last in &takes {
                let inside = takes.iter().filter(|t| t.sent >= first.sent && t.received <= last.received);
                let tokens: u64 = inside.map(|take| u64::from(take.count)).sum();
                if tokens > 0 && last.received >= first.sent {
                    let room = rule.capacity as f64 + rule.credit(last.received - first.sent);
                    worst = worst.max(tokens as f64 - room);
                }
            }
        }
        prop_assert!((found - worst).abs() < 1e-6, "{found} {worst}");
    }

    /// A perfect bucket keeps its own promises to the µs.
    #[test]
    fn again_is_the_first_instant_at_which_it_is_allowed(rule in rules(), asks in asks()) {
        let oracle = Oracle { ideal: Ideal::Bucket, rule, offset: 0, change: None };
        let (mut perfect, mut at) = (Perfect::new(&oracle), 1_000_000);
        for (pause, ..) in asks {
            at += pause;
            let again = perfect.again(at, 1).unwrap();
            prop_assert_eq!(again <= at, perfect.take(at, 1));
            if again > at {
                prop_assert!(!perfect.take(again - 1, 1));
                prop_assert!(perfect.take(again, 1));
                at = again;
            }
        }
    }
}
