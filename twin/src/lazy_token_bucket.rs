//! The twin of `lazy_token_bucket.lua`.

use topup_wire::{bucket::Operation, limit::Algorithm, reply::Settled};

use crate::{
    apply::{State, apply, writes},
    counter::Counter,
    record::Record,
};

/// A lazy bucket as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyBucket {
    /// Tokens in it.
    pub tokens: u64,
    /// The instant up to which it has been credited.
    pub at: u64,
    /// The instant since which the terms apply under which it was.
    pub since: u64,
}

// === impl Lazy ===

impl State for LazyBucket {
    const ALGORITHM: Algorithm = Algorithm::LazyTokenBucket;

    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let record = &Record { catch_up: true, ..*record };
        let is_previous = |held: &Self| held.since != record.since;
        let held = state.filter(|held| !is_previous(held) || record.previous.is_some());
        let (tokens, at) = match held.map(|held| Counter {
            tokens: held.tokens as i64,
            score: held.at,
            band: 0,
            is_previous: is_previous(&held),
        }) {
            None => record.absent(now),
            Some(held) => {
                let (tokens, at) = record.migrated(held);
                record.credit(tokens, at, now)
            }
        };
        let mut settled = apply(record.capacity, tokens, operation, now);
        if settled.missing > 0 {
            settled.wait = record.time_to(at, settled.missing, now);
        }
        let moved = state.is_none_or(|held| held.at != at || is_previous(&held));
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
