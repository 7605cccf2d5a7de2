//! Planted faults and the seeds that find them.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails where no seed finds its fault, and tells which does"
)]

use std::fmt::Debug;

/// Judges by one seed after the other until `broken` tells what `fault` breaks: first by those `tried`, which have found it
/// before, then by the first `seeds`. Returns what is broken.
#[track_caller]
pub(crate) fn found<T: Debug>(
    fault: impl Debug,
    tried: impl IntoIterator<Item = u64>,
    seeds: u64,
    broken: impl Fn(u64) -> Option<T>,
) -> T {
    let mut all = tried.into_iter().chain(0..seeds);
    let found = all.find_map(|seed| Some((seed, broken(seed)?)));
    let (seed, broken) = found.unwrap_or_else(|| panic!("no seed finds {fault:?}"));
    println!("{fault:?}: seed {seed}: {:.120}", format!("{broken:?}"));
    broken
}

/// Judges as [`found`]. What is broken has to be one of `laws`.
#[track_caller]
pub(crate) fn found_by(
    laws: &[&str],
    fault: impl Debug,
    tried: impl IntoIterator<Item = u64>,
    seeds: u64,
    judged: impl Fn(u64) -> Result<u64, String>,
) {
    let broken = found(&fault, tried, seeds, |seed| judged(seed).err());
    assert!(laws.iter().any(|law| broken.starts_with(law)), "{fault:?}: {broken}");
}
