//! A worker that takes as fast as it is allowed, and counts.

use topup_tests::Redis;
use topup_wire::reply::{Settled, Verdict};

use super::bucket::{Bucket, Stored};

/// The tokens that one worker has had of one bucket. Its rate, in tokens a second, divides a million.
pub(super) struct Traffic {
    bucket: Bucket,
    rate: u64,
    capacity: u64,
    admitted: u64,
    /// When the bucket stopped being full, in µs of Redis.
    first: u64,
    /// Tokens at the last answer.
    left: u64,
}

// === impl Traffic ===

impl Traffic {
    /// Begins with everything there is, so that a bare `DECR` is right from then on.
    pub(super) async fn begin(redis: &Redis, limit: &str, rate: u64) -> Self {
        let bucket = Bucket::of(redis, limit);
        let drained = bucket.drain().await;
        Self {
            bucket,
            rate,
            capacity: drained.capacity,
            admitted: drained.capacity,
            first: drained.now,
            left: 0,
        }
    }

    /// Asks for one token as workers do: `DECR` while there is something left, else by script. Ends when denied.
    pub(super) async fn take_what_there_is(&mut self) -> Settled {
        loop {
            if let Some(denied) = self.take_one().await {
                return denied;
            }
        }
    }

    /// The same for ten takes at most. On a busy machine, tokens may come as fast as they are taken.
    pub(super) async fn take_some(&mut self) {
        for _ in 0..10 {
            if self.take_one().await.is_some() {
                return;
            }
        }
    }

    /// Asks for one token. Returns a denial.
    async fn take_one(&mut self) -> Option<Settled> {
        if self.left > 0 {
            self.left = u64::try_from(self.bucket.decrement(1).await).map_or(0, |left| {
                self.admitted += 1;
                left
            });
            return None;
        }
        let settled = self.bucket.take(1).await;
        if settled.verdict != Verdict::Allowed {
            return Some(settled);
        }
        self.admitted += 1;
        self.left = settled.tokens;
        None
    }

    /// Takes the tokens that are there now by bare `DECR`s, and one more. Daemons have credited those that are there; one
    /// more is debt. Goes on no further: on a busy machine tokens may come as fast as they are taken.
    pub(super) async fn decrement_what_there_is(&mut self) {
        for _ in 0..=self.stored().await.tokens {
            self.admitted += u64::from(self.bucket.decrement(1).await >= 0);
        }
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    pub(super) async fn stored(&self) -> Stored {
        self.bucket.stored().await.expect("below full all the time")
    }

    /// Law 3: every µs was credited once. The bucket was never full, so no token was lost:
    /// `taken + left = capacity + rate × time`.
    pub(super) async fn audit(&self) {
        let Stored { tokens, score } = self.stored().await;
        let credited = (score - self.first) / (1_000_000 / self.rate);
        let left = u64::try_from(tokens).unwrap_or(0);
        assert_eq!(
            self.admitted + left,
            self.capacity + credited,
            "{} admitted, {tokens} left",
            self.admitted
        );
    }

    /// Laws 1 and 2 over the whole time, up to an answer that was a denial.
    pub(super) fn within_bounds(&self, denied: &Settled, tick: u64) {
        let rate_times = |micros: u64| micros as f64 * self.rate as f64 / 1e6;
        let elapsed = denied.now - self.first;
        let most = self.capacity as f64 + rate_times(elapsed + tick);
        let least = rate_times(elapsed) - 1.0;
        let admitted = self.admitted as f64;
        assert!((least..=most).contains(&admitted), "{admitted} admitted, {least} to {most} in {elapsed} µs");
    }
}
