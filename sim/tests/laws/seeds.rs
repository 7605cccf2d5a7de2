//! A thousand seeds, each with its own terms, traffic and mishaps: no law is broken.

use std::thread;

use topup_sim::{Plan, run, story};

/// Seeds of each run of the tests.
const SEEDS: u64 = 1_000;

#[test]
fn no_seed_breaks_a_law() {
    let named = std::env::var("TOPUP_SIM_SEED").map(|seed| seed.parse::<u64>().unwrap());
    let seeds = named.map_or(0..SEEDS, |seed| seed..seed + 1);
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for first in 0..threads {
            let seeds = seeds.clone().skip(first).step_by(threads);
            scope.spawn(move || {
                for seed in seeds {
                    let plan = Plan::generate(seed);
                    if let Some(broken) = run(&plan, None).broken {
                        panic!("{}", story(&plan, None, &broken));
                    }
                }
            });
        }
    });
}

#[test]
fn a_seed_replays_to_the_last_happening() {
    for seed in [3, 4, 5, 6, 7] {
        let (once, twice) = (run(&Plan::generate(seed), None), run(&Plan::generate(seed), None));
        assert_eq!((once.counts, once.worst), (twice.counts, twice.worst));
    }
}

#[test]
fn seeds_that_once_broke_a_law_break_none() {
    for seed in [
        784, 100_255, 109_902, 110_968, 120_131, 125_712, 128_486, 129_670, 134_492, 204_932, 208_134,
        214_812, 235_644, 302_419, 324_296, 353_773, 2_008_471, 196, 5_005_110, 6_001_034, 1_065, 2_524, 435,
        1_044, 15_739, 2_680, 5_086, 7_587, 10_028_669, 10_042_403, 10_494_888, 11_052_139, 11_056_982,
        23_056_789, 24_036_234, 24_424_424,
    ] {
        let plan = Plan::generate(seed);
        let told = run(&plan, None).broken.map(|broken| story(&plan, None, &broken));
        assert!(told.is_none(), "{}", told.unwrap_or_default());
    }
}
