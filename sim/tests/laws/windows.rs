//! Fixed windows: the laws hold for every seed, and each planted mistake breaks one.

use topup_sim::{WindowFault, run_windows};

use crate::found::found_by;

const SEEDS: u64 = 20;

#[test]
fn no_window_has_more_than_the_limit_and_each_ends() {
    let mut takes = 0;
    // In 3500016 and 5002837, the command that begins a window comes in the next one. In 8001732, one is over within a ms.
    for seed in (0..SEEDS).chain([3_500_016, 5_002_837, 8_001_732]) {
        takes += run_windows(seed, None).unwrap_or_else(|law| panic!("seed {seed}: {law}"));
    }
    println!("{SEEDS} seeds, {takes} allowed takes");
    assert!(takes > 50 * SEEDS);
}

#[test]
fn every_mistake_is_found() {
    for (fault, tried, law) in [
        (WindowFault::NeverEnds, 6, "ends"),
        (WindowFault::CountForgotten, 2, "never over"),
        (WindowFault::UncoveredForgotten, 3, "to the token"),
        (WindowFault::OneTooMany, 11, "never over"),
        (WindowFault::EndsEarly, 0, "never over"),
    ] {
        found_by(&[law], fault, [tried], 2 * SEEDS, |seed| run_windows(seed, Some(fault)));
    }
}
