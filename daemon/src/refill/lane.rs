//! The lane in which slices go to Redis.
//!
//! Nobody else is served while a script runs, nor before all is done that one connection has sent: what is under way at
//! once is what takes wait for. So it has a bound, whether it is one slice or are several small ones side by side.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::Semaphore;

use crate::clock::Moment;

/// Buckets in all slices under way: some 0.1 ms of Redis. Fewer, and a slice would cost more than its buckets; more, and
/// takes would wait for longer than they do for each other.
const MOST: usize = 32;
/// However slow Redis is, or busy with others, so many are credited at a time.
const LEAST: usize = 8;
/// What a slice costs by itself, in buckets.
const ITSELF: usize = 8;
/// A slice that takes longer than this, its way included, is followed by one of half as many buckets.
const SLOW: Duration = Duration::from_millis(1);

/// Places for slices, and a queue: who waits longest is next, so that no shard waits for all of another.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    places: Arc<Semaphore>,
    /// Buckets in the next slice.
    size: Arc<AtomicUsize>,
}

// === impl Lane ===

impl Lane {
    pub(super) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MOST)), size: Arc::new(AtomicUsize::new(MOST)) }
    }

    /// What a slice of so many buckets at most comes to, once it is its turn; about `expected` are to be credited.
    pub(super) async fn slice<T, F>(&self, expected: u64, slice: impl FnOnce(usize) -> F) -> T
    where
        F: Future<Output = T>,
    {
        let width = ITSELF.saturating_add(expected as usize).min(MOST);
        let turn = self.places(width, async {
            let (size, began) = (self.size.load(Relaxed), Moment::now());
            let done = slice(size).await;
            let next = if began.elapsed() > SLOW { size / 2 } else { size + 1 };
            self.size.store(next.clamp(LEAST, MOST), Relaxed);
            done
        });
        turn.await
    }

    /// What a question comes to that costs as much as a bucket, once it is its turn.
    pub(super) async fn look<T>(&self, question: impl Future<Output = T>) -> T {
        self.places(1, question).await
    }

    /// What comes of something that nothing else is to be beside.
    pub(super) async fn alone<T>(&self, work: impl Future<Output = T>) -> T {
        self.places(MOST, work).await
    }

    async fn places<T>(&self, width: usize, work: impl Future<Output = T>) -> T {
        // Never closed, so never refused.
        let _places = self.places.acquire_many(width as u32).await;
        work.await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::{task::yield_now, time::sleep};

    use super::*;

    async fn size(lane: &Lane, time: Duration) -> usize {
        let slice = |most| async move {
            if time > Duration::ZERO {
                sleep(time).await;
            }
            most
        };
        lane.slice(100, slice).await
    }

    #[tokio::test]
    async fn a_slow_slice_is_followed_by_smaller_ones_and_these_by_larger_ones_again() {
        let lane = Lane::new();
        for expected in [MOST, MOST / 2, LEAST, LEAST] {
            assert_eq!(size(&lane, 2 * SLOW).await, expected);
        }
        let mut largest = 0;
        // Some may be slow on a busy machine.
        for _ in 0..10_000 {
            largest = largest.max(size(&lane, Duration::ZERO).await);
        }
        assert_eq!(largest, MOST);
    }

    #[tokio::test]
    async fn what_is_under_way_has_a_bound_and_a_large_slice_is_alone() {
        let (lane, under_way, most) = (Lane::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let counted = |width: usize| {
            let (under_way, most) = (&under_way, &most);
            async move {
                most.fetch_max(under_way.fetch_add(width, Relaxed) + width, Relaxed);
                yield_now().await;
                under_way.fetch_sub(width, Relaxed);
            }
        };
        let each = (0..200).map(|i| {
            let (lane, counted) = (&lane, &counted);
            async move {
                match i % 10 {
                    0 => lane.slice(1_000, |_| counted(MOST)).await,
                    1 => lane.slice(3, |_| counted(ITSELF + 3)).await,
                    _ => lane.look(counted(1)).await,
                }
            }
        });
        join_all(each).await;
        assert_eq!(most.load(Relaxed), MOST);
    }
}
