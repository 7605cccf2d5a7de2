//! A handle of a bucket, made.

use std::cell::RefCell;

use divan::{Bencher, black_box};

use crate::table::{at_random, lay, names};

/// Of a limit.
#[divan::bench]
fn limit(bencher: Bencher<'_, '_>) {
    let table = lay();
    let client = &table.as_ref().unwrap().client;
    bencher.bench_local(|| client.limit(black_box("slow-keyed")));
}

/// Of a key, the limit's being kept.
#[divan::bench]
fn key(bencher: Bencher<'_, '_>) {
    let table = lay();
    let limit = table.as_ref().unwrap().client.limit("slow-keyed");
    bencher.bench_local(|| limit.key(black_box("key-0")));
}

/// Of one of 10,000 keys.
#[divan::bench]
fn key_among_10_000(bencher: Bencher<'_, '_>) {
    let table = lay();
    let limit = table.as_ref().unwrap().client.limit("slow-keyed");
    let (names, random) = (names(), RefCell::new(at_random()));
    bencher.with_inputs(|| random.borrow_mut()()).bench_local_values(|key| limit.key(&names[key]));
}
