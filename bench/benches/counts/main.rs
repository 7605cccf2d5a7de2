//! The cost of counting a take: counted and uncounted takes in turn, in one process.
//!
//! `TOPUPD=target/release/topupd cargo bench -p topup-bench --bench counts`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot run may end as it likes, and prints its figures"
)]

#[path = "../micro/fixture.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod fixture;

use std::{hint::black_box, slice};

use futures_util::FutureExt;
use topup::Bucket;
use topup_lab::{Summary, clock::Stopwatch};

use crate::fixture::{SAMPLE, Shared, shared};

/// Pairs, each of a counted and an uncounted measurement.
const PAIRS: usize = 30;
/// Samples of each measurement, of which the median counts: a disturbance spoils single ones. Counted and uncounted
/// samples take turns.
const SAMPLES: usize = 101;
/// Takes of one sample that spend tokens in hand. A lease has 1,000 at most.
const LEASED_SAMPLE: u32 = 250;

/// The ns of a take of each kind, and the ratios of the pairs.
struct Compared {
    counted: Vec<f64>,
    uncounted: Vec<f64>,
    ratios: Vec<f64>,
}

fn main() {
    topup_bench::avoid_redis().unwrap();
    {
        let shared = shared();
        let shared = shared.as_ref().unwrap();
        let denied = shared.limit("slow-hot", false);
        let leased = shared.limit("draining-hot-leased-more", false);
        // On a busy machine, a sample may outlive a denial: the take then goes on to Redis, and is given up.
        let _inside = shared.runtime.enter();
        let deny = || shared.deny(slice::from_ref(&denied));
        compare(
            "a denial from memory",
            SAMPLE,
            deny,
            || denied.take(1).now_or_never(),
            || denied.take_uncounted(1).now_or_never(),
        );
        compare("the same by try_take", SAMPLE, deny, || denied.try_take(), || denied.try_take_uncounted());
        let lease = || hold_tokens(shared, &leased);
        compare(
            "a token in hand",
            LEASED_SAMPLE,
            lease,
            || leased.take(1).now_or_never(),
            || leased.take_uncounted(1).now_or_never(),
        );
    }
    fixture::end();
}

/// Prints what counting costs in samples of `takes`. `prepare` makes sure that two samples are answered from memory.
fn compare<O>(
    name: &str,
    takes: u32,
    prepare: impl Fn(),
    counted: impl Fn() -> O,
    uncounted: impl Fn() -> O,
) {
    let mut compared = Compared { counted: Vec::new(), uncounted: Vec::new(), ratios: Vec::new() };
    for pair in 0..=PAIRS {
        let mut nanos = [const { Vec::new() }; 2];
        for sample in 0..SAMPLES {
            prepare();
            // Neither kind is always the first one.
            let kinds = if sample % 2 == 0 { [0, 1] } else { [1, 0] };
            for kind in kinds {
                nanos[kind].push(if kind == 0 { time(takes, &counted) } else { time(takes, &uncounted) });
            }
        }
        // The first pair warms up.
        if pair > 0 {
            let each = nanos.map(|all| Summary::of(all).unwrap().median / f64::from(takes));
            compared.counted.push(each[0]);
            compared.uncounted.push(each[1]);
            compared.ratios.push(each[0] / each[1]);
        }
    }
    let [counted, uncounted, ratios] =
        [compared.counted, compared.uncounted, compared.ratios].map(|figures| Summary::of(figures).unwrap());
    println!(
        "{name}: {:.2} ns counted, {:.2} ns uncounted; ratio {:.3} ({:.3}–{:.3}), median of {PAIRS} pairs",
        counted.median, uncounted.median, ratios.median, ratios.min, ratios.max
    );
}

/// The ns of a sample.
fn time<O>(takes: u32, take: impl Fn() -> O) -> f64 {
    let watch = Stopwatch::start();
    for _ in 0..takes {
        black_box(take());
    }
    watch.nanos() as f64
}

/// Makes sure that there are tokens in hand for two samples.
fn hold_tokens(shared: &Shared, bucket: &Bucket) {
    shared.runtime.block_on(async {
        while shared.client.prefetched_tokens() < u64::from(3 * LEASED_SAMPLE) {
            assert!(bucket.take(1).await.unwrap().is_allowed());
        }
    });
}
