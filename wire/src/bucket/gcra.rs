//! The twin of `gcra.lua`.

use super::{Held, Operation, Pace, Record, State, operate, writes};
use crate::{
    limit::{Algorithm, Capacity, Rate},
    reply::Settled,
};

/// A bucket of which one instant is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The theoretical arrival time: the instant at which it will be full.
    pub tat: u64,
    /// The instant since which the terms apply under which it was reckoned.
    pub since: u64,
}

/// The longest an emptied bucket may take to fill, in µs: 50 years, so that the instant is one that doubles hold.
const LONGEST: u128 = 50 * 366 * 86_400_000_000;

// === impl Arrival ===

impl Arrival {
    /// Whether an instant in µs says exactly how full a bucket is: tokens come one at a time, and within 50 years.
    pub fn tells(capacity: Capacity, rate: Rate) -> bool {
        let (n, p) = rate.lowest_terms();
        n <= p && u128::from(capacity.get()) * u128::from(p) <= LONGEST * u128::from(n)
    }

    /// Tokens and score as of `now`, under the terms it was reckoned under.
    fn tokens(&self, capacity: u64, pace: Pace, now: u64) -> (u64, u64) {
        if self.tat <= now {
            return (capacity, self.tat);
        }
        let (missing, score) = pace.missing(self.tat, now);
        match u64::try_from(missing).ok().and_then(|missing| capacity.checked_sub(missing)) {
            Some(tokens) => (tokens, score),
            // The clock stepped back.
            None => (0, pace.start(now)),
        }
    }
}

impl State for Arrival {
    const ALGORITHM: Algorithm = Algorithm::Gcra;

    fn operate(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let record = &Record { catch_up: true, ..*record };
        let held = match (*state, record.before) {
            (Some(kept), _) if kept.since == record.since => {
                let (tokens, score) = kept.tokens(record.capacity, record.pace, now);
                Some(Held::new(tokens, score, false))
            }
            (Some(kept), Some(before)) => {
                let (tokens, score) = kept.tokens(before.capacity, before.pace, record.since);
                Some(Held::new(tokens, score, true))
            }
            _ => None,
        };
        let (settled, score) = operate(record, held, operation, now);
        let arrival = |tokens: u64| Self {
            tat: record.pace.instant(score, record.capacity - tokens),
            since: record.since,
        };
        let moved = *state != Some(arrival(settled.tokens));
        if writes(operation, settled.verdict, moved) {
            *state = (!record.vanishes(settled.tokens, now)).then_some(arrival(settled.tokens));
        }
        Settled { headroom: 0, ..settled }
    }

    fn expiry(&self, record: &Record) -> u64 {
        self.tat.max(record.absent_full()).div_ceil(1_000)
    }
}
