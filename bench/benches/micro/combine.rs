//! Takers of one bucket who ask at once: one round trip, whatever their number. Divided by it, what each pays.

use divan::{Bencher, counter::ItemsCount};
use futures_util::future::join_all;

use crate::fixture::shared;

#[divan::bench(args = [1, 8, 32, 256])]
fn takers(bencher: Bencher<'_, '_>, takers: usize) {
    let shared = shared();
    let shared = shared.as_ref().unwrap();
    let bucket = shared.limit("deep-hot", false);
    bencher.counter(ItemsCount::new(takers)).bench_local(|| {
        shared.runtime.block_on(join_all((0..takers).map(|_| bucket.take(1))));
    });
}
