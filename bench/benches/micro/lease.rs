//! A token that was taken ahead, spent.

use std::cell::Cell;

use divan::Bencher;
use topup::{Bucket, Decision};

use crate::fixture::{SAMPLE, Shared, names, shared};

/// Calls `take`, before each sample having made sure that tokens of `bucket` enough for it are held.
fn spent(bencher: Bencher<'_, '_>, shared: &Shared, bucket: &Bucket, take: impl Fn() -> Option<Decision>) {
    let inputs = Cell::new(0_u32);
    bencher
        .with_inputs(|| {
            if inputs.replace(inputs.get() + 1).is_multiple_of(SAMPLE) {
                shared.runtime.block_on(async {
                    while shared.client.prefetched_tokens() < u64::from(2 * SAMPLE) {
                        assert!(bucket.take(1).await.unwrap().is_allowed());
                    }
                });
            }
        })
        .bench_local_values(|()| take());
}

/// A take by a handle that is kept.
#[divan::bench(sample_size = SAMPLE)]
fn kept(bencher: Bencher<'_, '_>) {
    let shared = shared();
    let shared = shared.as_ref().unwrap();
    let bucket = shared.limit("draining-hot-leased", false);
    spent(bencher, shared, &bucket, || bucket.try_take());
}

/// A take from the bucket of a key, which is found anew for each take, among 10,000 others.
#[divan::bench(sample_size = SAMPLE)]
fn by_key_among_10_000(bencher: Bencher<'_, '_>) {
    let shared = shared();
    let shared = shared.as_ref().unwrap();
    let limit = shared.limit("draining-keyed-leased", true);
    let others: Vec<Bucket> = names().iter().map(|name| limit.key(name)).collect();
    let bucket = limit.key("hot");
    spent(bencher, shared, &bucket, || limit.key("hot").try_take());
    drop(others);
}
