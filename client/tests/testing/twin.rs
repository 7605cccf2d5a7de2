//! Random calls, decided by `topup::testing` and by the twin of the scripts.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};
use topup::{
    Client, Decision, Error,
    testing::{Limit, Topup},
};
use topup_twin::{
    AtRest, Bucket, FixedWindow, LazyBucket, LeakyBucket, Record, SlidingCounter, SlidingLog, State,
};
use topup_wire::{
    bucket::Operation,
    limit::{self, Algorithm, Capacity, Rule, Supply, Terms, Windows},
    reply::{Settled, Verdict},
};

use crate::seeds::each_seed;

/// Redis `TIME` at the start, in µs.
const BEGAN: u64 = 1_767_225_600_000_000;
/// A first take, one native command, notes the full instant up to so many µs late.
const FIRST_TAKE_LATE: u128 = 3_000;
/// Calls of one run.
const CALLS: usize = 300;

/// One bucket, as the twin keeps it.
trait Model {
    /// Whether a bare command tells the tokens without those that a daemon has not credited yet.
    const COUNTS: bool;

    fn settle(&mut self, record: &Record, operation: Operation, now: u64) -> Settled;
}

impl Model for Bucket {
    const COUNTS: bool = true;

    fn settle(&mut self, record: &Record, operation: Operation, now: u64) -> Settled {
        topup_twin::settle(record, self, operation, false, None, now)
    }
}

struct Of<S>(Option<S>);

impl<S: State> Model for Of<S> {
    const COUNTS: bool = false;

    fn settle(&mut self, record: &Record, operation: Operation, now: u64) -> Settled {
        S::settle(record, &mut self.0, operation, now)
    }
}

fn record(algorithm: Algorithm, capacity: u64, supply: Supply) -> Record {
    let terms = Terms { capacity: Capacity::new(capacity).unwrap(), supply };
    Record::new(&limit::Limit::plain("api".parse().unwrap(), algorithm, terms), BEGAN)
}

fn windows(rules: &[&str], aligned: bool) -> (u64, Supply) {
    let rules = rules.iter().map(|rule| {
        let rate: limit::Rate = rule.parse().unwrap();
        Rule::new(rate.tokens(), rate.interval()).unwrap()
    });
    let windows = Windows::new(&rules.collect::<Vec<_>>(), aligned).unwrap();
    (windows.capacity().get(), Supply::Windows(windows))
}

/// Calls at random, each decided by a client and by the model.
async fn same_decisions<M: Model>(mut dice: StdRng, limit: Limit, record: Record, mut model: M, step: u64) {
    let topup = Topup::new().limit("api", limit).start().unwrap();
    let clients = [topup.client(), topup.client_of(Client::builder()).unwrap()];
    // A refund waits for the tokens that another client may have in hand. One client has no other.
    let clients = &clients[..if dice.random_bool(0.5) { 1 } else { 2 }];
    // The twin settles each take. A first take has no settle, and a phase of its own.
    let slack =
        if record.pace.n == 0 { 0 } else { FIRST_TAKE_LATE as u64 * record.pace.n / record.pace.p + 1 };
    let near = |ours: u64, twin: u64| ours.abs_diff(twin) <= slack;
    let mut said = Vec::new();
    for call in 0..CALLS {
        let bucket = clients[dice.random_range(0..clients.len())].limit("api");
        let now = BEGAN + topup.elapsed().as_micros() as u64;
        let count = if dice.random_bool(0.7) { 1 } else { dice.random_range(1..=record.capacity + 1) };
        let line = match dice.random_range(0..10) {
            0..=5 => {
                let (decided, settled) =
                    (bucket.take(count).await, model.settle(&record, Operation::Take(count), now));
                if settled.verdict == Verdict::Denied
                    && decided.as_ref().is_ok_and(Decision::is_allowed)
                    && settled.wait <= FIRST_TAKE_LATE as u64
                {
                    return;
                }
                if let (Ok(Decision::Denied { retry_after, .. }), Verdict::Allowed) =
                    (&decided, settled.verdict)
                {
                    assert!(retry_after.as_micros() <= FIRST_TAKE_LATE, "{retry_after:?}");
                    return;
                }
                let same = match &decided {
                    Ok(Decision::Allowed { remaining, .. }) => {
                        let counts = M::COUNTS && *remaining <= settled.tokens + slack;
                        settled.verdict == Verdict::Allowed && (counts || near(*remaining, settled.tokens))
                    }
                    // A client tells a denial from memory, without what the other one has taken since.
                    Ok(Decision::Denied { .. }) if clients.len() > 1 => settled.verdict == Verdict::Denied,
                    Ok(Decision::Denied { remaining, retry_after, .. }) => {
                        // From memory, the tokens are those of the last answer.
                        settled.verdict == Verdict::Denied
                            && *remaining <= settled.tokens
                            && retry_after.as_micros().abs_diff(settled.wait.into()) <= FIRST_TAKE_LATE
                    }
                    Err(Error::ExceedsCapacity { .. }) => settled.verdict == Verdict::ExceedsCapacity,
                    _ => false,
                };
                (same, format!("{now} take {count}: {decided:?}, {settled:?}"))
            }
            6 => {
                let (peeked, settled) = (bucket.peek().await, model.settle(&record, Operation::Peek(1), now));
                let same = peeked.as_ref().is_ok_and(|peeked| near(peeked.remaining(), settled.tokens));
                (
                    same && near(topup.tokens("api", None).unwrap(), settled.tokens),
                    format!("{now} peek: {peeked:?}, {settled:?}"),
                )
            }
            7 if clients.len() == 1 => {
                let left = bucket.refund(count).await;
                let settled = model.settle(&record, Operation::Refund(count), now);
                (
                    left.as_ref().is_ok_and(|left| near(*left, settled.tokens)),
                    format!("{now} refund {count}: {left:?}, {settled:?}"),
                )
            }
            _ => {
                let by = dice.random_range(0..step);
                topup.advance(Duration::from_micros(by)).await;
                (true, format!("{now} + {by}"))
            }
        };
        said.push(line.1);
        assert!(line.0, "call {call} of {record:?}:\n{}", said[said.len().saturating_sub(15)..].join("\n"));
    }
}

#[test]
fn every_algorithm_decides_as_its_twin_does() {
    each_seed(6, |mut dice| async move {
        let (capacity, rate) =
            [(5, "1/s"), (20, "2/s"), (1, "1/250ms"), (100, "50/s"), (3, "2/h")][dice.random_range(0..5)];
        let parsed: limit::Rate = rate.parse().unwrap();
        let step = (parsed.pace().p / parsed.pace().n * 4).max(2);
        let rated = |algorithm| record(algorithm, capacity, Supply::Rate(parsed));
        let dice = &mut dice;
        let mut fork = || -> StdRng { rand::SeedableRng::seed_from_u64(dice.random()) };
        let limit = Limit::token_bucket(capacity, rate);
        same_decisions(fork(), limit, rated(Algorithm::TokenBucket), Bucket::Absent, step).await;
        let limit = Limit::gcra(capacity, rate);
        same_decisions(fork(), limit, rated(Algorithm::Gcra), Of::<AtRest>(None), step).await;
        let limit = Limit::lazy_token_bucket(capacity, rate);
        same_decisions(fork(), limit, rated(Algorithm::LazyTokenBucket), Of::<LazyBucket>(None), step).await;
        let limit = Limit::leaky_bucket(capacity, rate);
        same_decisions(fork(), limit, rated(Algorithm::LeakyBucket), Of::<LeakyBucket>(None), step).await;
        for aligned in [false, true] {
            let limit = if aligned { Limit::aligned_window("9/s") } else { Limit::fixed_window("9/s") };
            let (capacity, supply) = windows(&["9/s"], aligned);
            let record = record(Algorithm::FixedWindow, capacity, supply);
            same_decisions(fork(), limit, record, Of::<FixedWindow>(None), 400_000).await;
        }
        for rules in [&["9/s"][..], &["5/s", "20/10s"]] {
            let (capacity, supply) = windows(rules, false);
            let record = record(Algorithm::SlidingWindow, capacity, supply);
            same_decisions(fork(), Limit::sliding_window(rules), record, Of::<SlidingLog>(None), 600_000)
                .await;
        }
        let (capacity, supply) = windows(&["9/s"], false);
        let record = record(Algorithm::SlidingCounter, capacity, supply);
        same_decisions(fork(), Limit::sliding_counter("9/s"), record, Of::<SlidingCounter>(None), 400_000)
            .await;
    });
}
