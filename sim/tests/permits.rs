//! Permits: the laws hold for every seed, and each planted mistake breaks one.

use topup_sim::{PermitMistake, run_permits};
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

/// The first seed that finds a mistake, and the law that it breaks: one of these.
fn found(mistake: PermitMistake, laws: &[&str]) {
    let broken = (0..SEEDS).find_map(|seed| Some((seed, run_permits(seed, Some(mistake)).err()?)));
    let (seed, broken) = broken.unwrap_or_else(|| panic!("no seed finds {mistake:?}"));
    println!("{mistake:?}: seed {seed}: {broken:.120}");
    assert!(laws.iter().any(|law| broken.starts_with(law)), "{broken}");
}

#[test]
fn every_mistake_is_found() {
    const TOO_MANY: &str = "never one too many";
    for (fault, laws) in [
        (PermitFault::CountsTheDead, &["none lost"][..]),
        // A waiter whose turn was taken away gets a place, too.
        (PermitFault::RevivesTheDead, &[TOO_MANY, "in order"]),
        (PermitFault::FreesTwice, &[TOO_MANY]),
        (PermitFault::Overtakes, &["in order"]),
        (PermitFault::TrustsWaiters, &["none lost"]),
        (PermitFault::Shortens, &[TOO_MANY]),
    ] {
        found(PermitMistake::Script(fault), laws);
    }
    found(PermitMistake::CountsFromAnswer, &[TOO_MANY]);
}
