//! The twin of `lazy_token_bucket.lua`.

use topup_wire::{bucket::Operation, limit::Algorithm, reply::Settled};

use crate::{
    apply::{State, apply, writes},
    record::Record,
    stages::Stages,
};

/// A lazy bucket as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyBucket {
    /// Tokens in it, below 0 in debt.
    pub tokens: i64,
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
        let stages = Stages::new(record, now);
        let record = stages.present();
        let wrote = state.and_then(|held| Some((held, stages.known(|stage| stage.since == held.since)?)));
        let (tokens, at) = match wrote {
            None => record.absent(now),
            Some((held, wrote)) => {
                let (tokens, at) = stages.carried(wrote, held.tokens, held.at);
                record.credit(tokens, at, now)
            }
        };
        let mut settled = apply(record.capacity, tokens, operation, now);
        if settled.missing > 0 {
            settled.wait = record.wait_for(settled.tokens, at, settled.missing, now);
        }
        let moved = state.is_none_or(|held| held.at != at || held.since != record.since);
        if writes(operation, settled.verdict, moved) {
            let (tokens, since) = (settled.tokens, record.since);
            *state = (!record.vanishes(tokens, now)).then_some(Self { tokens, at, since });
        }
        settled.into()
    }

    fn expiry(&self, record: &Record) -> u64 {
        let record = record.after_changes(|record| record.since == self.since);
        let full = record.reached(self.tokens, self.at, None);
        full.max(record.absent_full()).div_ceil(1_000)
    }
}
