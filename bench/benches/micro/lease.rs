//! A token that was taken ahead, spent.

use std::cell::Cell;

use divan::Bencher;
use topup::{Bucket, Decision};

use crate::table::{SAMPLE, Table, lay, names};

/// Calls `take`, before each sample having made sure that tokens of `bucket` enough for it are held.
fn spent(bencher: Bencher<'_, '_>, table: &Table, bucket: &Bucket, take: impl Fn() -> Option<Decision>) {
    let inputs = Cell::new(0_u32);
    bencher
        .with_inputs(|| {
            if inputs.replace(inputs.get() + 1).is_multiple_of(SAMPLE) {
                table.runtime.block_on(async {
                    while table.client.prefetched_tokens() < u64::from(2 * SAMPLE) {
                        assert!(bucket.take(1).await.unwrap().is_allowed());
                    }
                });
            }
        })
        .bench_local_values(|()| take());
}

/// Of a handle that is kept.
#[divan::bench(sample_size = SAMPLE)]
fn kept(bencher: Bencher<'_, '_>) {
    let table = lay();
    let table = table.as_ref().unwrap();
    let bucket = table.limit("draining-hot-leased", false);
    spent(bencher, table, &bucket, || bucket.try_take());
}

/// Of a key of a limit that is kept, 10,000 others being remembered.
#[divan::bench(sample_size = SAMPLE)]
fn by_key_among_10_000(bencher: Bencher<'_, '_>) {
    let table = lay();
    let table = table.as_ref().unwrap();
    let limit = table.limit("draining-keyed-leased", true);
    let others: Vec<Bucket> = names().iter().map(|name| limit.key(name)).collect();
    let bucket = limit.key("hot");
    spent(bencher, table, &bucket, || limit.key("hot").try_take());
    drop(others);
}
