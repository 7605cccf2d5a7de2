//! The state that control polls tell a worker.

use topup::machine::{Micros, RedisTime};

/// An estimate is trusted for so long after the sending of the last poll that was answered, in µs.
const TRUST: Micros = 700_000;
/// A poll older than that says that Redis is out of sight, in µs.
const IN_SIGHT: Micros = 750_000;

/// The state told by control polls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    /// `None`: Redis is out of sight.
    generation: Option<u64>,
    pub(crate) epoch: u64,
    pub(super) daemon_alive: bool,
    pub(crate) trusted_until: Micros,
    pub(super) redis_now: u64,
    pub(crate) redis: RedisTime,
}

// === impl Control ===

impl Control {
    /// Takes note of a poll sent at `sent` and answered at `received`.
    pub(crate) fn note(
        &mut self,
        generation: u64,
        daemon_alive: bool,
        redis_now: u64,
        sent: Micros,
        received: Micros,
    ) {
        if self.generation.replace(generation) != Some(generation) {
            self.epoch += 1;
        }
        (self.daemon_alive, self.redis_now) = (daemon_alive, redis_now);
        self.redis = self.redis.heard(redis_now, sent, received);
        self.trusted_until = sent + TRUST;
    }

    /// Redis gives no answer in time.
    pub(crate) fn lose_sight(&mut self, now: Micros) {
        if now > self.trusted_until + (IN_SIGHT - TRUST) {
            (self.daemon_alive, self.generation, self.redis) = (false, None, RedisTime::default());
        }
    }

    /// The connection is broken.
    pub(crate) fn break_off(&mut self) {
        (self.trusted_until, self.daemon_alive, self.generation) = (0, false, None);
        self.redis = RedisTime::default();
    }
}
