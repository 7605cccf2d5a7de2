//! Fair shares: the laws hold for every seed, and each planted mistake breaks one.

use topup_sim::run_shares;

use crate::found::found_by;
use topup_twin::ShareFault;

const SEEDS: u64 = 60;

#[test]
fn each_has_its_part_and_what_the_others_leave_by_weight() {
    let mut takes = 0;
    // In the others, a part of one token borrows of a full limit.
    for seed in (0..SEEDS).chain([2_900_830, 2_902_147, 2_904_319]) {
        takes += run_shares(seed, None).unwrap_or_else(|law| panic!("seed {seed}: {law}"));
    }
    println!("{SEEDS} seeds, {takes} takes");
    assert!(takes > 1_000 * SEEDS);
}

#[test]
fn every_mistake_is_found() {
    for (fault, laws) in [
        (ShareFault::CreditsTwice, &["total"][..]),
        (ShareFault::RefundsTwice, &["total"]),
        (ShareFault::LendsOwn, &["part", "weights"]),
        (ShareFault::LendsFractions, &["part"]),
        (ShareFault::LendsRoom, &["part"]),
        (ShareFault::KeepsLoans, &["part", "weights"]),
        (ShareFault::LoansOutlive, &["part"]),
        (ShareFault::DealsEvenly, &["weights"]),
        (ShareFault::NeverDeals, &["lend", "weights"]),
        (ShareFault::CompletesAny, &["part"]),
        (ShareFault::FillsOnChange, &["part"]),
    ] {
        found_by(laws, fault, [], SEEDS, |seed| run_shares(seed, Some(fault)));
    }
}
