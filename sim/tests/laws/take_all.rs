//! Takes of several limits: the laws hold for every seed, and each planted mistake breaks one.

use topup_sim::{TakeAllFault, run_take_all};

use crate::found::found_by;

const SEEDS: u64 = 24;

#[test]
fn takes_of_several_limits_get_all_or_nothing() {
    let mut takes = 0;
    // In the first two, a worker prolongs the life of a counter. In the next two, it gives back what a script has found.
    for seed in (0..SEEDS).chain([7_100_065, 7_101_084, 8_100_181, 8_102_612]) {
        takes += run_take_all(seed, None).unwrap_or_else(|law| panic!("seed {seed}: {law}"));
    }
    println!("{SEEDS} seeds, {takes} allowed takes");
    assert!(takes > 100 * SEEDS);
}

#[test]
fn every_mistake_is_found() {
    for (fault, tried, law) in [
        (TakeAllFault::TakesAnyhow, 2, "to the token"),
        (TakeAllFault::PutBackForgotten, 2, "to the token"),
        (TakeAllFault::PutBackTwice, 2, "to the token"),
        (TakeAllFault::FindsMore, 29, "never over"),
        (TakeAllFault::FirstTakesMisplaced, 5, "to the token"),
    ] {
        found_by(&[law], fault, [tried], SEEDS, |seed| run_take_all(seed, Some(fault)));
    }
}
