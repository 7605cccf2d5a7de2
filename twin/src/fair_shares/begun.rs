//! States under new terms.

use topup_wire::{
    bucket::Pace,
    limit::{OnChange, Part},
};

use super::{
    fault::ShareFault,
    state::{FairShares, SharePart},
    terms::ShareTerms,
};
use crate::{
    record::{PreviousTerms, Record},
    time::Credit,
};

impl FairShares {
    /// The state under `terms`, from one under earlier terms or from none.
    pub(super) fn begun(
        terms: &ShareTerms,
        before: Option<&Self>,
        now: u64,
        fault: Option<ShareFault>,
    ) -> Self {
        let record = &terms.record;
        let (tokens, at) = record.absent(now);
        let mut begun = Self {
            since: record.since,
            capacity: record.capacity,
            pace: record.pace,
            tokens: tokens as u64,
            at,
            dealt: 0,
            period: terms.period,
            expires: 0,
            lends: false,
            under: terms.under.clone(),
            parts: Vec::with_capacity(terms.under.len()),
        };
        let empty = |part: &Part, tokens: u64, at: u64| SharePart {
            capacity: part.capacity,
            pace: part.pace,
            tokens,
            at,
            loan: 0,
            used: 0,
            carry: 0.0,
        };
        let Some(before) = before else {
            for part in terms.under.iter() {
                // Doubles, as in Lua.
                let some = match begun.tokens >= record.capacity {
                    true => part.capacity,
                    false => (tokens as f64 / record.capacity as f64 * part.capacity as f64) as u64,
                };
                begun.parts.push(empty(part, some, part.pace.start(now)));
            }
            return begun;
        };
        let since = record.since.min(now);
        let changed = |to: Record, capacity: u64, pace: Pace, tokens: u64, at: u64| {
            let previous = PreviousTerms { capacity, pace, filled: 0, on_change: OnChange::Keep };
            let (tokens, at) = Record { since, capacity, ..to }.migrate(previous, tokens as i64, at);
            let (tokens, at) = match record.on_change {
                OnChange::Keep => (tokens, at),
                OnChange::Reset => (to.capacity as i64, at),
                // Doubles, as in Lua.
                OnChange::Proportional => {
                    let tokens = tokens as f64 * record.capacity as f64 / before.capacity as f64;
                    (tokens as i64, to.pace.start(since))
                }
            };
            (tokens.min(to.capacity as i64), at)
        };
        let (tokens, at) = changed(*record, before.capacity, before.pace, before.tokens, before.at);
        let (tokens, at) = record.credit(tokens, at, now);
        (begun.tokens, begun.at) = (tokens as u64, at);
        let mut left = begun.tokens;
        for part in terms.under.iter() {
            let to = terms.under(part);
            let same = before.under.iter().position(|one| one.name == part.name).map(|i| before.parts[i]);
            let (tokens, at) = match same {
                Some(same) => changed(to, same.capacity, same.pace, same.tokens, same.at),
                None => {
                    let is_full = record.on_change == OnChange::Reset;
                    (if is_full { part.capacity as i64 } else { 0 }, part.pace.start(since))
                }
            };
            let (mut tokens, at) = to.credit(tokens, at, now);
            if fault == Some(ShareFault::FillsOnChange) {
                tokens = part.capacity as i64;
            } else {
                tokens = tokens.min(left as i64);
                left -= tokens as u64;
            }
            begun.parts.push(empty(part, tokens as u64, at));
        }
        begun
    }
}
