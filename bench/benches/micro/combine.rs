//! Takers of one bucket who ask at once: one round trip, whatever their number. Divided by it, what each pays.

use divan::{Bencher, counter::ItemsCount};
use futures_util::future::join_all;

use crate::table::lay;

#[divan::bench(args = [1, 8, 32, 256])]
fn takers(bencher: Bencher<'_, '_>, takers: usize) {
    let table = lay();
    let table = table.as_ref().unwrap();
    let bucket = table.limit("deep-hot", false);
    bencher.counter(ItemsCount::new(takers)).bench_local(|| {
        table.runtime.block_on(join_all((0..takers).map(|_| bucket.take(1))));
    });
}
