//! Charges into debt, among all other traffic.

use topup_sim::{Fault, Law, Plan, run, story};

#[test]
fn laws_hold_with_debt() {
    let mut charges = 0;
    for seed in 0..400 {
        let plan = Plan::charging(seed);
        let outcome = run(&plan, None);
        if let Some(broken) = outcome.broken {
            panic!("{}", story(&plan, None, &broken));
        }
        charges += outcome.counts.charges;
    }
    println!("{charges} charges");
    assert!(charges > 4_000, "{charges}");
}

#[test]
fn each_planted_fault_of_charges_is_found() {
    for (fault, is_it) in [
        (Fault::DebtForgiven, (|law: &Law| matches!(law, Law::Over(_))) as fn(&Law) -> bool),
        (Fault::ChargedTwice, |law| matches!(law, Law::Vanished(_))),
    ] {
        let law = |seed| Some(run(&Plan::charging(seed), Some(fault)).broken?.law).filter(is_it);
        println!("{fault:?}: {:?}", (0..400).find_map(law).expect("some seed finds it"));
    }
}
