//! A take of a bucket that is known to be empty: answered from memory.

use std::cell::Cell;

use divan::Bencher;
use futures_util::FutureExt;
use topup::Bucket;

use crate::table::{SAMPLE, Table, at_random, lay, names};

/// Calls `take` with the number of a key, before each sample having made sure that all `buckets` are known to be empty.
fn denied<O>(bencher: Bencher<'_, '_>, table: &Table, buckets: &[Bucket], take: impl Fn(usize) -> O) {
    let (inputs, mut random) = (Cell::new(0_u32), at_random());
    bencher
        .with_inputs(|| {
            if inputs.replace(inputs.get() + 1).is_multiple_of(SAMPLE) {
                table.deny(buckets);
            }
            random()
        })
        .bench_local_values(take);
}

/// Of a handle that is kept.
#[divan::bench(sample_size = SAMPLE)]
fn kept(bencher: Bencher<'_, '_>) {
    let table = lay();
    let table = table.as_ref().unwrap();
    let bucket = table.limit("slow-hot", false);
    denied(bencher, table, std::slice::from_ref(&bucket), |_| bucket.take(1).now_or_never());
}

/// Of a bucket named anew, limit and key.
#[divan::bench(sample_size = SAMPLE)]
fn named(bencher: Bencher<'_, '_>) {
    let table = lay();
    let table = table.as_ref().unwrap();
    let bucket = table.limit("slow-keyed", true).key("key-0");
    denied(bencher, table, std::slice::from_ref(&bucket), |_| {
        table.client.limit("slow-keyed").key("key-0").take(1).now_or_never()
    });
}

/// Of one of 10,000 keys of a limit that is kept.
#[divan::bench(sample_size = SAMPLE)]
fn among_10_000_keys(bencher: Bencher<'_, '_>) {
    let table = lay();
    let table = table.as_ref().unwrap();
    let (limit, names) = (table.limit("slow-keyed", true), names());
    let buckets: Vec<Bucket> = names.iter().map(|name| limit.key(name)).collect();
    denied(bencher, table, &buckets, |key| limit.key(&names[key]).take(1).now_or_never());
}
