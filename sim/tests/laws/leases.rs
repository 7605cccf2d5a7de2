//! What a lease costs Redis: no more than none where takes are rare, and far less where they are not.

use topup_sim::{Counts, Plan, Promise, SECOND};

use crate::asked::asked_of;

/// 10 tokens, 10 a second.
const USER: Promise = Promise::new(10, 10, SECOND);
/// A bucket that takes leave below full: no lease is of use in one that is nearly full.
const TENANT: Promise = Promise::new(1_000_000, 10, SECOND);
/// The same, with the pace of a person.
const SLOW_TENANT: Promise = Promise::new(10_000, 1, SECOND);
const LASTS: u64 = 60 * SECOND;

/// Takes of one token each, a mean of `gap` µs apart, by any of the workers.
fn asked(seed: u64, workers: usize, promise: Promise, gap: u64, lease: Option<(u64, u64)>) -> Counts {
    let counts = asked_of(Plan::calm(seed, workers, promise), (1, gap), LASTS, lease);
    assert!(counts.admitted * gap * 2 > LASTS, "{counts:?}");
    counts
}

#[test]
fn a_lease_adds_no_scripts_where_takes_are_rare() {
    for workers in [1, 4] {
        for percent in [10, 25, 50, 90] {
            let settles = |lease| -> u64 {
                (0..8).map(|seed| asked(seed, workers, USER, 10_000_000 / percent, lease).settles).sum()
            };
            let (with, without, takes) =
                (settles(Some((10, SECOND))), settles(None), 8 * LASTS * percent / 10_000_000);
            println!(
                "{workers} workers, {percent} %: {with} scripts with a lease, {without} without, {takes} takes"
            );
            assert!(with * 10 <= without * 10 + takes, "{workers} workers, {percent} %: {with}, {without}");
        }
    }
}

#[test]
fn a_lease_saves_most_commands_where_it_lasts_for_many_takes() {
    for (workers, promise, gap, ttl) in [
        (1, TENANT, 1_111, SECOND),
        (4, TENANT, 1_111, SECOND),
        (1, SLOW_TENANT, SECOND / 5, 20 * SECOND),
        (4, SLOW_TENANT, SECOND / 20, 20 * SECOND),
    ] {
        let commands = |lease: Option<u64>| -> u64 {
            (0..4)
                .map(|seed| asked(seed, workers, promise, gap, lease.map(|max| (max, ttl))))
                .map(|counts| counts.settles + counts.decrements + counts.takes_at_rest + counts.first_takes)
                .sum()
        };
        let (with, without) = (commands(Some(100)), commands(None));
        println!("{workers} workers, {gap} µs: {with} commands with a lease, {without} without");
        assert!(with * 5 <= without, "{workers} workers, {gap} µs: {with}, {without}");
    }
}
