//! Fair shares: the script's twin is never called wrong, and its planted faults are found from outside.

use std::time::Duration;

use topup_twin::{FairShares, Record, ShareFault, ShareTerms};
use topup_wire::{
    bucket::Operation,
    limit::{Algorithm, Capacity, Limit, Parts, Rate, Supply, Terms},
    reply::Verdict,
};

use super::*;
use crate::{oracle::held_tests::random, rule::TICK, take::Answer};

const SECOND: Micros = 1_000_000;
const RULE: Rule = Rule::per_second(160, 160);

fn terms() -> ShareTerms {
    let rate = Rate::new(RULE.tokens, Duration::from_micros(RULE.micros)).unwrap();
    let terms = Terms { capacity: Capacity::new(RULE.capacity).unwrap(), supply: Supply::Rate(rate) };
    let parts = ["0", "1", "2", "*"].into_iter().zip(WEIGHTS).map(|(name, weight)| (name.to_owned(), weight));
    let limit = Limit {
        parts: Parts::new(parts).unwrap(),
        tick: Duration::from_micros(TICK),
        ..Limit::plain("x".parse().unwrap(), Algorithm::FairShares, terms)
    };
    ShareTerms::new(&limit, Record::new(&limit, 0))
}

/// Tenants that ask for so many tokens a second, each for a time, decided by the twin or by a plain bucket for all.
fn play(seed: u64, fault: Option<ShareFault>, is_plain: bool) -> Wrong {
    let (terms, mut state, mut next) = (terms(), None, random(seed));
    let oracle = Oracle { ideal: Ideal::Shares, rule: RULE, offset: 0, change: None };
    let mut plain = Perfect::new(&oracle);
    let most = if seed.is_multiple_of(3) { 3 } else { 1 };
    let mut asked = Vec::new();
    for key in 0..5_u32 {
        let mut at = SECOND;
        while at < 5 * SECOND {
            // A while of much, of little or of nothing.
            let (until, load) = (at + SECOND / 2 + next(2 * SECOND), [0, 5, 100, 700][next(4) as usize]);
            let gap = 2 * SECOND / load.max(1);
            at += next(gap);
            while at < until && load > 0 {
                asked.push((at, key, 1 + next(most) as u32));
                at += next(gap);
            }
            at = until;
        }
    }
    asked.sort_unstable();
    let decide = |(at, key, count): (Micros, u32, u32)| {
        let (name, take) = (key.to_string(), Operation::Take(count.into()));
        let is_allowed = match is_plain {
            true => plain.take(at, count.into()),
            false => {
                let told = FairShares::settle(&terms, &mut state, &name, take, at, fault);
                told.verdict == Verdict::Allowed
            }
        };
        let answer = if is_allowed { Answer::Allowed } else { Answer::Denied { retry_after: None } };
        Take {
            bucket: key,
            worker: 0,
            count,
            sent: at - next(300),
            received: at + next(300),
            answer,
            end: None,
        }
    };
    let takes: Vec<Take> = asked.into_iter().map(decide).collect();
    let groups = Ideal::Shares.groups(&takes);
    assert_eq!(groups.len(), 1);
    oracle.judge(&groups[0])
}

#[test]
fn parts_that_borrow_are_judged_from_outside() {
    for seed in 0..15 {
        assert_eq!(play(seed, None, false), Wrong::default(), "{seed}");
    }
}

#[test]
fn mistakes_of_parts_are_found() {
    let allows = |wrong: &Wrong| wrong.allowed > 0;
    let denies = |wrong: &Wrong| wrong.denied > 0;
    for (fault, finds) in [
        (None, denies as fn(&Wrong) -> bool),
        (Some(ShareFault::CreditsTwice), allows),
        (Some(ShareFault::LendsOwn), denies),
        (Some(ShareFault::LendsFractions), denies),
        (Some(ShareFault::KeepsLoans), denies),
        (Some(ShareFault::NeverDeals), denies),
        (Some(ShareFault::DealsEvenly), denies),
    ] {
        // Without parts, one takes what is the others'.
        let found = (0..100).any(|seed| finds(&play(seed, fault, fault.is_none())));
        assert!(found, "{fault:?}");
    }
}
