//! Seeds of random tests: a failing one is printed, and replays from the environment.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::thread;

/// Names the seed to replay.
pub const VARIABLE: &str = "TOPUP_TEST_SEED";

/// The seed of one test; when the test fails it prints how to replay it.
#[derive(Debug)]
pub struct Seed(u64);

// === impl Seed ===

impl Seed {
    /// The seed in `TOPUP_TEST_SEED`, or a new one.
    ///
    /// # Panics
    ///
    /// When the variable holds anything but a number.
    #[must_use]
    pub fn new() -> Self {
        let replayed = env::var(VARIABLE).ok();
        let replayed = replayed.map(|seed| seed.parse().expect("TOPUP_TEST_SEED should be a number"));
        // The standard library seeds every hasher at random: enough here, and no further package.
        Self(replayed.unwrap_or_else(|| RandomState::new().hash_one(())))
    }

    /// The number to seed a generator with.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0
    }
}

impl Default for Seed {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Seed {
    #[allow(clippy::print_stderr, reason = "cargo test shows it with the failure, where it is looked for")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("to replay this: {VARIABLE}={}", self.0);
        }
    }
}
