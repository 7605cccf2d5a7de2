//! Seeds of random tests.

use std::env;

use rand::{SeedableRng, rngs::StdRng};

/// Runs `test` with `count` seeds, or with the one of `TOPUP_TEST_SEED`. Prints a seed that fails.
pub(crate) fn each_seed<F: Future<Output = ()>>(count: u64, test: impl Fn(StdRng) -> F) {
    let given = env::var("TOPUP_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = given.map_or(0..count, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let failing = Failing(seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(StdRng::seed_from_u64(seed)));
        std::mem::forget(failing);
    }
}

/// Says which seed has failed.
struct Failing(u64);

impl Drop for Failing {
    fn drop(&mut self) {
        println!("failed: TOPUP_TEST_SEED={}", self.0);
    }
}
