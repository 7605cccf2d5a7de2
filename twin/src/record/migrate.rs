//! Buckets as last written, under the present terms of a record.

use topup_wire::limit::OnChange;

use super::{PreviousTerms, Record};
use crate::{counter::Counter, time::Credit};

// === impl Record ===

impl Record {
    /// Tokens and score of a bucket as last written, under the present terms.
    pub(crate) fn migrated(&self, held: Counter) -> (i64, u64) {
        let tokens = held.tokens.max(0);
        match self.previous.filter(|_| held.is_previous) {
            None => (tokens, held.score),
            Some(before) => self.migrate(before, tokens, held.score),
        }
    }

    /// The same of a counter, and whether takes of a bucket at rest have met it.
    pub(crate) fn migrated_counter(&self, held: Counter) -> (i64, u64, bool) {
        let known = self.previous.filter(|_| held.is_previous);
        let (tokens, met) = match known {
            None => self.counted(held.tokens),
            Some(before) if held.tokens > before.capacity as i64 => (0, false),
            Some(_) => (held.tokens.max(0) as u64, false),
        };
        let (tokens, score) = self.migrated(Counter { tokens: tokens as i64, ..held });
        (tokens, score, met)
    }

    /// Tokens and score under the present terms of a bucket last credited under those of `before`.
    pub(crate) fn migrate(&self, before: PreviousTerms, tokens: i64, score: u64) -> (i64, u64) {
        let (k, at) = before.pace.owed(score, self.since);
        let (tokens, part) =
            if i128::from(tokens) + k as i128 >= i128::from(before.capacity) || score < before.filled {
                (before.capacity as i64, 0.0)
            } else if at < self.since && before.pace.n > 0 {
                // Doubles, as in Lua: a share of one token, once per change.
                let part = (self.since - at) as f64 * before.pace.n as f64 / before.pace.p as f64;
                (tokens + k as i64, part.min(1.0))
            } else {
                (tokens + k as i64, 0.0)
            };
        let mut from = score.max(self.since);
        if self.pace.n > 0 {
            from -= (part * self.pace.p as f64 / self.pace.n as f64) as u64;
        }
        (converted(tokens, before.capacity, self.capacity, before.on_change), self.pace.start(from))
    }
}

/// Tokens under a new capacity of a bucket that holds `tokens` of `capacity`.
fn converted(tokens: i64, capacity: u64, new: u64, on_change: OnChange) -> i64 {
    match on_change {
        OnChange::Reset => new as i64,
        // Debt is owed under any terms.
        _ if tokens < 0 => tokens,
        OnChange::Proportional if tokens >= capacity as i64 => new as i64,
        // Doubles, as in Lua.
        OnChange::Proportional => (tokens as f64 * new as f64 / capacity as f64) as i64,
        OnChange::Keep => tokens.min(new as i64),
    }
}
