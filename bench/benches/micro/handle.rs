//! A handle of a bucket, made.

use std::cell::RefCell;

use divan::{Bencher, black_box};

use crate::fixture::{at_random, names, shared};

/// The handle of a limit.
#[divan::bench]
fn limit(bencher: Bencher<'_, '_>) {
    let shared = shared();
    let client = &shared.as_ref().unwrap().client;
    bencher.bench_local(|| client.limit(black_box("slow-keyed")));
}

/// The handle of a key, made of that of the limit.
#[divan::bench]
fn key(bencher: Bencher<'_, '_>) {
    let shared = shared();
    let limit = shared.as_ref().unwrap().client.limit("slow-keyed");
    bencher.bench_local(|| limit.key(black_box("key-0")));
}

/// The handle of one of 10,000 keys.
#[divan::bench]
fn key_among_10_000(bencher: Bencher<'_, '_>) {
    let shared = shared();
    let limit = shared.as_ref().unwrap().client.limit("slow-keyed");
    let (names, random) = (names(), RefCell::new(at_random()));
    bencher.with_inputs(|| random.borrow_mut()()).bench_local_values(|key| limit.key(&names[key]));
}
