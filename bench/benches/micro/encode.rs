//! A request, encoded into the buffer that is written next.

use divan::{Bencher, black_box};
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::Algorithm,
    namespace::Namespace,
    scripts::{encode_decrement, encode_settle},
};

fn encoded(bencher: Bencher<'_, '_>, request: impl Fn(&mut Vec<u8>, &ShardKeys, &str)) {
    let keys = ShardKeys::new(Namespace::default(), &"user".parse().unwrap(), 3);
    let counter = keys.state(Algorithm::TokenBucket, "alice@example.com");
    let mut out = Vec::with_capacity(4_096);
    bencher.bench_local(|| {
        out.clear();
        request(&mut out, black_box(&keys), black_box(&counter));
    });
}

/// For one taker.
#[divan::bench]
fn decr(bencher: Bencher<'_, '_>) {
    encoded(bencher, |out, _, counter| encode_decrement(out, counter, 1));
}

/// For 32.
#[divan::bench]
fn decrby(bencher: Bencher<'_, '_>) {
    encoded(bencher, |out, _, counter| encode_decrement(out, counter, 32));
}

/// The script, where a bucket is not known to be below full.
#[divan::bench]
fn settle(bencher: Bencher<'_, '_>) {
    encoded(bencher, |out, keys, counter| {
        encode_settle(out, Algorithm::TokenBucket, keys, counter, Operation::Take(1), true, None, false)
    });
}
