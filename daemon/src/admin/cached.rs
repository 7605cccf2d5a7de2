//! Answers of Redis, kept for a second: however many ask, Redis is asked once.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use tokio::sync::Mutex;

use crate::clock::Moment;

/// The time for which an answer is kept.
const KEPT: Duration = Duration::from_secs(1);
/// Most answers that are kept.
const MOST: usize = 256;

/// Answers by what was asked.
#[derive(Debug)]
pub(super) struct Cached<K, T>(Mutex<HashMap<K, (Moment, Arc<T>)>>);

// === impl Cached ===

impl<K: Eq + Hash, T> Cached<K, T> {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    /// The answer to `asked`: a kept one, or that of `ask`. One question is asked at a time.
    pub(super) async fn get(&self, asked: K, ask: impl Future<Output = T>) -> Arc<T> {
        let mut answers = self.0.lock().await;
        if let Some((at, answer)) = answers.get(&asked)
            && at.elapsed() < KEPT
        {
            return answer.clone();
        }
        let answer = Arc::new(ask.await);
        if answers.len() >= MOST {
            answers.retain(|_, (at, _)| at.elapsed() < KEPT);
        }
        if answers.len() >= MOST {
            answers.clear();
        }
        answers.insert(asked, (Moment::now(), answer.clone()));
        answer
    }

    /// Forgets the answer to `asked`.
    pub(super) async fn forget(&self, asked: &K) {
        self.0.lock().await.remove(asked);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[tokio::test]
    async fn redis_is_asked_once_for_many_and_answers_are_bounded() {
        let (cached, asked) = (Cached::new(), AtomicUsize::new(0));
        let ask = |key: usize| cached.get(key, async { asked.fetch_add(1, Relaxed) });
        let first = ask(0).await;
        for _ in 0..100 {
            // A standing machine may let a second pass.
            assert!(*ask(0).await >= *first);
        }
        assert!(asked.load(Relaxed) < 50);
        for key in 0..3 * MOST {
            ask(key).await;
        }
        assert!(cached.0.lock().await.len() <= MOST);
    }
}
