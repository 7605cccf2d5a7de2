//! Penalties: the laws hold for every seed, and each planted mistake breaks one.

use topup_sim::{PenaltyFault, run_penalties};

use crate::found::found_by;

const SEEDS: u64 = 18;

#[test]
fn blocks_are_earned_and_last_as_long_as_the_penalty_says() {
    let mut blocks = 0;
    // Redis refused the first block of a key in 5135, and a block was told again late in 5137. In 2900155, a look fell on
    // the loss of all data. In 5102722, Redis is back by the poll that finds a broken connection. In 5103743, a block ends
    // late, and the next one begins within it.
    for seed in (0..SEEDS).chain([5135, 5137, 2_900_155, 5_102_722, 5_103_743, 23_300_226]) {
        blocks += run_penalties(seed, None).unwrap_or_else(|law| panic!("seed {seed}: {law}"));
    }
    println!("{SEEDS} seeds, {blocks} blocks");
    assert!(blocks > 2 * SEEDS);
}

#[test]
fn every_mistake_is_found() {
    for (fault, first, laws) in [
        (PenaltyFault::TooEarly, 56, &["earned"][..]),
        (PenaltyFault::TimeIgnored, 0, &["earned"][..]),
        (PenaltyFault::CountsBlocked, 1, &["earned", "length"][..]),
        (PenaltyFault::NeverGrows, 2, &["length"][..]),
        (PenaltyFault::NeverForgets, 56, &["length"][..]),
        (PenaltyFault::EndsEarly, 0, &["length"][..]),
        (PenaltyFault::NeverLooks, 1, &["held"][..]),
        (PenaltyFault::StaysBlocked, 1, &["told"][..]),
        (PenaltyFault::LostWithAnswer, 14, &["blocked", "length"][..]),
        (PenaltyFault::StateStays, 0, &["nothing left"][..]),
    ] {
        found_by(laws, fault, [first], SEEDS, |seed| run_penalties(seed, Some(fault)));
    }
    assert_eq!(PenaltyFault::ALL.len(), 10, "each has a row");
}
