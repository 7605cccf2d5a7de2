//! Holds: the laws hold for every seed, and each planted mistake breaks one.

use topup_sim::{HoldFault, run_holds};

use crate::found::found_by;

const SEEDS: u64 = 20;

#[test]
fn every_token_of_a_hold_is_charged_or_put_back() {
    let mut holds = 0;
    // A hold that was settled again with another number broke the law in the last one.
    for seed in (0..SEEDS).chain([91]) {
        holds += run_holds(seed, None).unwrap_or_else(|law| panic!("seed {seed}: {law}"));
    }
    println!("{SEEDS} seeds, {holds} holds");
    assert!(holds > 50 * SEEDS);
}

#[test]
fn every_mistake_is_found() {
    for fault in HoldFault::ALL {
        let law = if fault == HoldFault::DebtUnbounded { "debt" } else { "to the token" };
        found_by(&[law], fault, [], SEEDS, |seed| run_holds(seed, Some(fault)));
    }
}
