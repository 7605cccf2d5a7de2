//! The refill limiter: bounds the refill work that one Redis node has in flight.
//!
//! Redis runs one script at a time, and all commands that one connection has sent before it serves another one. Takes
//! therefore wait for all refill work in flight, whether that is one slice or several small ones.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::Semaphore;

use crate::{clock::Moment, metrics::Metrics};

/// Buckets in all slices in flight: about 0.1 ms of Redis. With fewer, a slice would cost more than its buckets. With
/// more, takes would wait longer than they do for each other.
const MAX_BUCKETS: usize = 32;
/// The smallest size of a slice, in buckets, however slow Redis is.
const MIN_SLICE: usize = 8;
/// The cost of a slice beside that of its buckets, in buckets.
const SLICE_COST: usize = 8;
/// A slice that takes longer than this, from sending to reply, halves the size of the next.
const SLOW_SLICE: Duration = Duration::from_millis(1);

/// Permits for buckets in flight, first come, first served: no shard waits for all slices of another.
#[derive(Clone, Debug)]
pub(super) struct RefillLimiter {
    permits: Arc<Semaphore>,
    /// The size of the next slice, in buckets.
    size: Arc<AtomicUsize>,
    metrics: Metrics,
}

// === impl RefillLimiter ===

impl RefillLimiter {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            permits: Arc::new(Semaphore::new(MAX_BUCKETS)),
            size: Arc::new(AtomicUsize::new(MAX_BUCKETS)),
        }
    }

    /// Runs `slice` with its size when permits are free. `expected` is the number of buckets it will probably credit.
    pub(super) async fn slice<T, F>(&self, expected: u64, slice: impl FnOnce(usize) -> F) -> T
    where
        F: Future<Output = T>,
    {
        let cost = SLICE_COST.saturating_add(expected as usize).min(MAX_BUCKETS);
        let sized = async {
            let (size, began) = (self.size.load(Relaxed), Moment::now());
            let reply = slice(size).await;
            let took = began.elapsed();
            self.metrics.refilled(took);
            let next = if took > SLOW_SLICE { size / 2 } else { size + 1 };
            self.size.store(next.clamp(MIN_SLICE, MAX_BUCKETS), Relaxed);
            reply
        };
        self.run(cost, sized).await
    }

    /// Runs a question that costs as much as one bucket when a permit is free.
    pub(super) async fn question<T>(&self, question: impl Future<Output = T>) -> T {
        self.run(1, question).await
    }

    /// Runs `work` while no other work is in flight.
    pub(super) async fn exclusive<T>(&self, work: impl Future<Output = T>) -> T {
        self.run(MAX_BUCKETS, work).await
    }

    async fn run<T>(&self, cost: usize, work: impl Future<Output = T>) -> T {
        // The semaphore is never closed, so `acquire_many` never fails.
        let _permits = self.permits.acquire_many(cost as u32).await;
        work.await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::{task::yield_now, time::sleep};

    use super::*;

    async fn size(limiter: &RefillLimiter, time: Duration) -> usize {
        let slice = |size| async move {
            if time > Duration::ZERO {
                // The slice itself, which takes a while: nothing is waited for.
                sleep(time).await;
            }
            size
        };
        limiter.slice(100, slice).await
    }

    #[tokio::test]
    async fn a_slow_slice_is_followed_by_smaller_ones_and_these_by_larger_ones_again() {
        let limiter = RefillLimiter::new(Metrics::default());
        for expected in [MAX_BUCKETS, MAX_BUCKETS / 2, MIN_SLICE, MIN_SLICE] {
            assert_eq!(size(&limiter, 2 * SLOW_SLICE).await, expected);
        }
        let mut largest = 0;
        // Some may be slow on a busy machine.
        for _ in 0..10_000 {
            largest = largest.max(size(&limiter, Duration::ZERO).await);
        }
        assert_eq!(largest, MAX_BUCKETS);
    }

    #[tokio::test]
    async fn work_in_flight_is_bounded_and_a_large_slice_is_alone() {
        let (limiter, in_flight, most) =
            (RefillLimiter::new(Metrics::default()), AtomicUsize::new(0), AtomicUsize::new(0));
        let counted = |width: usize| {
            let (in_flight, most) = (&in_flight, &most);
            async move {
                most.fetch_max(in_flight.fetch_add(width, Relaxed) + width, Relaxed);
                yield_now().await;
                in_flight.fetch_sub(width, Relaxed);
            }
        };
        let each = (0..200).map(|i| {
            let (limiter, counted) = (&limiter, &counted);
            async move {
                match i % 10 {
                    0 => limiter.slice(1_000, |_| counted(MAX_BUCKETS)).await,
                    1 => limiter.slice(3, |_| counted(SLICE_COST + 3)).await,
                    _ => limiter.question(counted(1)).await,
                }
            }
        });
        join_all(each).await;
        assert_eq!(most.load(Relaxed), MAX_BUCKETS);
    }
}
