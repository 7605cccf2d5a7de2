//! Planted faults: each is found within the seeds that the tests run.

use topup_sim::{Fault, Law, Plan, run};

use crate::found::found;

/// Seeds of each run of the tests.
const SEEDS: u64 = 4_000;

macro_rules! found {
    ($($name:ident: $fault:ident $(by $tried:literal)?,)*) => {$(
        #[test]
        fn $name() {
            let broken = |seed| Some(run(&Plan::generate(seed), Some(Fault::$fault)).broken?.law);
            let _: Law = found(Fault::$fault, [$($tried)?], SEEDS, broken);
        }
    )*};
}

found! {
    a_full_instant_that_is_one_token_late: FullInstantLate,
    leeway_beyond_the_full_instant: Leeway,
    put_ins_in_place: PutInInPlace,
    put_ins_that_wait_for_nobody: OneStep,
    counting_again_at_once: NoHold,
    doubt_that_is_not_told: DoubtUntold,
    returns_that_are_lost: LostReturn,
    a_deadline_that_begins_anew: DeadlineAnew,
    first_takes_that_overwrite: FirstTakeOverwrites,
    keys_that_expire_early: ExpiryEarly,
    refills_that_credit_twice: RefillTwice,
    refills_that_forget: RefillForgets,
    missing_tokens_that_are_not_told: ShortfallUntold,
    trust_without_end: TrustForever,
    stock_beyond_its_time: StockUnbounded by 103,
    put_ins_sent_again: PutInAgain,
    knowledge_that_stays_fresh: FreshIgnored by 355,
    a_change_that_is_forgotten: ChangeForgotten by 259,
    terms_that_are_forgotten: EarlierForgotten by 2_910_851,
    keys_that_stay: KeyStays,
    keys_that_are_not_kept_for_longer: ExpiryStays,
    takes_at_rest_that_are_kept: KeptAtRest,
    takes_at_rest_that_are_given_twice: GivenTwice,
    other_terms_that_are_not_seen: OtherTermsUnseen by 102147,
    a_time_of_redis_that_is_half_a_token_wrong: OffsetWrong by 252,
    late_first_takes_that_are_not_corrected: LateFirstTake by 3490,
    reserved_tokens_that_are_good_at_once: DelayUntold,
}

#[test]
fn every_fault_has_a_test() {
    let source = concat!(
        include_str!("planted.rs"),
        include_str!("refunds.rs"),
        include_str!("schedules.rs"),
        include_str!("charges.rs")
    );
    for fault in Fault::ALL {
        let named = [format!(": {fault:?},"), format!(": {fault:?} by "), format!("Fault::{fault:?}")];
        assert!(named.iter().any(|name| source.contains(name)), "{fault:?}");
    }
}
