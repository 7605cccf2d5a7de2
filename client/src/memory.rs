//! What this worker remembers of buckets, so that one command is enough for a take and none for a denial.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use topup_wire::{bucket::Pace, reply::Settled, reply::Verdict};

use crate::clock::Micros;

/// Buckets remembered by one client, at most: about 16 MB. A bucket forgotten costs one script at its next take.
pub(crate) const MOST_BUCKETS: usize = 65_536;
/// The memory is split so that tasks on different buckets do not wait for each other.
const PARTS: usize = 16;

/// A denial is asked about again after this, in µs, however long it is: someone may have given tokens back.
const TRUST: Micros = 1_000_000;

/// What is known of one bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The generation of what is published that this is known under.
    epoch: u64,
    /// When the script was asked that told what follows.
    sent: Micros,
    /// Below full until then, whoever credits: a bare `DECR` is right.
    below_full_until: Micros,
    /// When the bucket would be full if it had been emptied: each token it holds brings that nearer by one token's time.
    empty_until_full: Micros,
    /// Denied until then, as Redis said.
    denied_until: Micros,
    /// The smallest count that was denied.
    denied_count: u64,
    /// Asked again after this, see [`TRUST`].
    denial_trusted_until: Micros,
    /// Tokens at the last answer.
    tokens: u64,
    /// Capacity at the last answer.
    capacity: u64,
}

/// What was asked, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Tokens asked for.
    pub(crate) count: u64,
    /// Just before the question was sent.
    pub(crate) sent: Micros,
    /// The pace of the limit.
    pub(crate) pace: Pace,
    /// What was published then.
    pub(crate) epoch: u64,
}

/// A denial told from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) tokens: u64,
    pub(crate) capacity: u64,
    pub(crate) wait: Micros,
}

/// What a worker does for a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// The bucket is below full: `DECR`.
    Decrement { capacity: u64 },
    /// The answer is known.
    Deny(Denial),
    /// Ask by script.
    Settle,
}

/// What is known of many buckets; the least recently used are forgotten.
#[derive(Debug)]
pub(crate) struct Memory {
    parts: [Mutex<LruCache<Box<str>, Known>>; PARTS],
}

// === impl Known ===

impl Known {
    /// What an answer of a script, asked for at `sent`, tells.
    fn learned(settled: &Settled, asked: Asked) -> Self {
        let Asked { count, sent, pace, epoch } = asked;
        // Counted from before the question: whatever the way took, the bucket is not fuller than this says.
        let below_full_until = sent.saturating_add(settled.headroom);
        let mut known = Self {
            epoch,
            sent,
            below_full_until,
            empty_until_full: below_full_until.saturating_add(time_of(settled.tokens, pace)),
            tokens: settled.tokens,
            capacity: settled.capacity,
            ..Self::default()
        };
        if settled.verdict == Verdict::Denied {
            known.denied_until = sent.saturating_add(settled.wait);
            known.denied_count = count;
            known.denial_trusted_until = known.denied_until.min(sent.saturating_add(TRUST));
        }
        known
    }

    /// What the answer `tokens` of a bare `DECR`, sent at `sent`, tells. True of the bucket whenever it was, so that the
    /// later instant stands; but not of a bucket that the script, asked later, has credited since.
    fn taken(&mut self, tokens: u64, pace: Pace, sent: Micros) {
        if sent < self.sent {
            return;
        }
        self.tokens = tokens;
        // A µs less, as that time is rounded down.
        let until = self.empty_until_full.saturating_sub(time_of(tokens, pace).saturating_add(1));
        self.below_full_until = self.below_full_until.max(until);
    }

    fn advise(&self, count: u64, pace: Pace, now: Micros) -> Advice {
        // More than fits is refused, not denied: Redis says so.
        let comparable = self.denied_count <= count && count <= self.capacity;
        if now < self.denial_trusted_until && comparable {
            let more = time_of(count - self.denied_count, pace);
            let wait = self.denied_until.saturating_add(more) - now;
            return Advice::Deny(Denial { tokens: self.tokens, capacity: self.capacity, wait });
        }
        // An emptied bucket is asked for by script: only that credits what is owed right now.
        if count == 1 && self.tokens > 0 && now < self.below_full_until {
            return Advice::Decrement { capacity: self.capacity };
        }
        Advice::Settle
    }
}

/// µs in which `tokens` come; none come with time to a calendar quota, and none of its tokens delay its filling.
fn time_of(tokens: u64, pace: Pace) -> Micros {
    if pace.n == 0 {
        return 0;
    }
    let micros = u128::from(tokens) * u128::from(pace.p) / u128::from(pace.n);
    Micros::try_from(micros).unwrap_or(Micros::MAX)
}

// === impl Memory ===

impl Memory {
    pub(crate) fn new() -> Self {
        let part = NonZeroUsize::new(MOST_BUCKETS / PARTS).unwrap_or(NonZeroUsize::MIN);
        Self { parts: std::array::from_fn(|_| Mutex::new(LruCache::new(part))) }
    }

    /// What to do for the question `asked`.
    pub(crate) fn advise(&self, bucket: &str, asked: Asked) -> Advice {
        match self.part(bucket).get(bucket) {
            Some(known) if known.epoch == asked.epoch => known.advise(asked.count, asked.pace, asked.sent),
            _ => Advice::Settle,
        }
    }

    /// Learns from the answer of a script.
    pub(crate) fn settled(&self, bucket: &str, settled: &Settled, asked: Asked) {
        let known = Known::learned(settled, asked);
        let mut part = self.part(bucket);
        match part.get_mut(bucket) {
            Some(held) => *held = known,
            None => {
                part.put(bucket.into(), known);
            }
        }
    }

    /// Learns from the answer of a bare `DECR`.
    pub(crate) fn taken(&self, bucket: &str, tokens: u64, asked: Asked) {
        if let Some(known) = self.part(bucket).get_mut(bucket).filter(|known| known.epoch == asked.epoch) {
            known.taken(tokens, asked.pace, asked.sent);
        }
    }

    /// Forgets a bucket that something else than a take has changed.
    pub(crate) fn forget(&self, bucket: &str) {
        self.part(bucket).pop(bucket);
    }

    fn part(&self, bucket: &str) -> MutexGuard<'_, LruCache<Box<str>, Known>> {
        // All of its bytes: keys may have beginnings or endings in common.
        let mixed = bucket.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        // A panic elsewhere leaves at worst what was known before.
        self.parts[mixed % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
