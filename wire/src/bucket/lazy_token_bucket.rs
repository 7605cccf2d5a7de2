//! The twin of `lazy_token_bucket.lua`.

use super::{Held, Operation, Record, State, decided, writes};
use crate::{limit::Algorithm, reply::Settled};

/// A lazy bucket as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lazy {
    /// Tokens in it.
    pub tokens: u64,
    /// The instant up to which it has been credited.
    pub at: u64,
    /// The instant since which the terms apply under which it was.
    pub since: u64,
}

// === impl Lazy ===

impl State for Lazy {
    const ALGORITHM: Algorithm = Algorithm::LazyTokenBucket;

    fn operate(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let record = &Record { catch_up: true, ..*record };
        let former = |held: &Self| held.since != record.since;
        let held = state.filter(|held| !former(held) || record.before.is_some());
        let (tokens, at) = match held.map(|held| Held::new(held.tokens, held.at, former(&held))) {
            None => record.absent(now),
            Some(held) => {
                let (tokens, at) = record.carried(held);
                record.credit(tokens, at, now)
            }
        };
        let mut settled = decided(record.capacity, tokens, operation, now);
        if settled.missing > 0 {
            settled.wait = record.time_to(at, settled.missing, now);
        }
        let moved = state.is_none_or(|held| held.at != at || former(&held));
        if writes(operation, settled.verdict, moved) {
            let (tokens, since) = (settled.tokens, record.since);
            *state = (!record.vanishes(tokens, now)).then_some(Self { tokens, at, since });
        }
        settled.into()
    }

    fn expiry(&self, record: &Record) -> u64 {
        let full = record.pace.instant(self.at, record.capacity - self.tokens);
        full.max(record.absent_full()).div_ceil(1_000)
    }
}
