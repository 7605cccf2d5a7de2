//! A take of a bucket that is known to be empty: answered from memory.

use std::cell::Cell;

use divan::Bencher;
use futures_util::FutureExt;
use topup::Bucket;

use crate::fixture::{SAMPLE, Shared, at_random, names, shared};

/// Calls `take` with the number of a key, before each sample having made sure that all `buckets` are known to be empty.
fn denied<O>(bencher: Bencher<'_, '_>, shared: &Shared, buckets: &[Bucket], take: impl Fn(usize) -> O) {
    let (inputs, mut random) = (Cell::new(0_u32), at_random());
    bencher
        .with_inputs(|| {
            if inputs.replace(inputs.get() + 1).is_multiple_of(SAMPLE) {
                shared.deny(buckets);
            }
            random()
        })
        .bench_local_values(take);
}

/// A take by a handle that is kept.
#[divan::bench(sample_size = SAMPLE)]
fn kept(bencher: Bencher<'_, '_>) {
    let shared = shared();
    let shared = shared.as_ref().unwrap();
    let bucket = shared.limit("slow-hot", false);
    denied(bencher, shared, std::slice::from_ref(&bucket), |_| bucket.take(1).now_or_never());
}

/// A take by limit and key, both named anew.
#[divan::bench(sample_size = SAMPLE)]
fn named(bencher: Bencher<'_, '_>) {
    let shared = shared();
    let shared = shared.as_ref().unwrap();
    let bucket = shared.limit("slow-keyed", true).key("key-0");
    denied(bencher, shared, std::slice::from_ref(&bucket), |_| {
        shared.client.limit("slow-keyed").key("key-0").take(1).now_or_never()
    });
}

/// A take of one of 10,000 keys of a limit that is kept.
#[divan::bench(sample_size = SAMPLE)]
fn among_10_000_keys(bencher: Bencher<'_, '_>) {
    let shared = shared();
    let shared = shared.as_ref().unwrap();
    let (limit, names) = (shared.limit("slow-keyed", true), names());
    let buckets: Vec<Bucket> = names.iter().map(|name| limit.key(name)).collect();
    denied(bencher, shared, &buckets, |key| limit.key(&names[key]).take(1).now_or_never());
}
