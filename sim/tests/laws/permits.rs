//! Permits: the laws hold for every seed, and each planted mistake breaks one.

use topup_sim::{PermitMistake, run_permits};

use crate::found::found_by;
use topup_twin::PermitFault;

const SEEDS: u64 = 1_000;

#[test]
fn never_one_too_many_none_lost_and_all_in_order() {
    let mut ids = 0;
    for seed in 0..SEEDS {
        ids += run_permits(seed, None).unwrap_or_else(|law| panic!("seed {seed}: {law}"));
    }
    println!("{SEEDS} seeds, {ids} permits");
    assert!(ids > 50 * SEEDS);
}

#[test]
fn every_mistake_is_found() {
    const TOO_MANY: &str = "never one too many";
    let of_script = [
        (PermitFault::CountsTheDead, &["none lost"][..]),
        // A waiter whose turn was taken away gets a place, too.
        (PermitFault::RevivesTheDead, &[TOO_MANY, "in order"]),
        (PermitFault::FreesTwice, &[TOO_MANY]),
        (PermitFault::Overtakes, &["in order"]),
        (PermitFault::TrustsWaiters, &["none lost"]),
        (PermitFault::Shortens, &[TOO_MANY]),
    ];
    let all = of_script.map(|(fault, laws)| (PermitMistake::Script(fault), laws));
    for (mistake, laws) in all.into_iter().chain([(PermitMistake::CountsFromAnswer, &[TOO_MANY][..])]) {
        found_by(laws, mistake, [], SEEDS, |seed| run_permits(seed, Some(mistake)));
    }
}
