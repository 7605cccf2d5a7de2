//! The laws of takes of several limits: see [the module above](super).

use topup_wire::{
    bucket::{Operation, Pace},
    limit::{Limit, Supply},
    scripts,
};

use super::{World, tally::Tally};
use crate::{
    clients::{Call, locked, never_over, text},
    plan::SECOND,
};

// === impl World ===

impl World {
    /// Holds each bucket to the laws, after the clients have put back what they have in hand.
    pub(super) async fn judge(&mut self) -> Result<u64, String> {
        self.clients.advance(SECOND).await;
        self.clients.all.clear();
        self.clients.advance(4 * SECOND).await;
        let mut allowed = 0;
        for i in 0..self.tallies.len() {
            let of_all = i + 1 == self.tallies.len();
            let key = if of_all { String::new() } else { i.to_string() };
            let limit = self.limits[usize::from(of_all)].clone();
            let tally = locked(&self.tallies[i], |tally| tally.clone());
            allowed += tally.takes.len() as u64;
            let judged = match self.refills {
                true => over_no_window(&limit, &tally),
                false => self.hold_to_the_token(&limit, &key, &tally).await,
            };
            judged.map_err(|law| {
                let (slowest, refunds) = (self.clients.slowest, self.refunds);
                let Limit { terms, lease, .. } = limit;
                format!("{law}, key {key:?}, {terms:?}, {lease:?}, slowest {slowest}, refunds {refunds}")
            })?;
        }
        Ok(allowed)
    }

    async fn hold_to_the_token(&mut self, limit: &Limit, key: &str, tally: &Tally) -> Result<(), String> {
        let (keys, capacity) = (self.clients.keys(&limit.name), limit.terms.capacity.get());
        let (redis, peek) = (&mut self.clients.redis, Operation::Peek(1));
        let settled =
            scripts::settle(redis, limit.algorithm, &keys, key, peek, false, None).await.map_err(text)?;
        let missing = capacity - settled.tokens;
        let least = tally.taken.saturating_sub(tally.back);
        let sure = tally.taken + tally.unsure + tally.lost - tally.surely_back;
        // Leased tokens may be lost that come after the deadline.
        let most = if limit.lease.is_some() && self.clients.slowest > SECOND / 4 { capacity } else { sure };
        if (least..=most).contains(&missing) {
            return Ok(());
        }
        Err(format!("to the token: {missing} are missing, not {least} to {most}"))
    }
}

/// Holds all windows to the capacity and the rate.
fn over_no_window(limit: &Limit, tally: &Tally) -> Result<(), String> {
    let Supply::Rate(rate) = limit.terms.supply else { return Ok(()) };
    let (capacity, Pace { n, p }) = (limit.terms.capacity.get(), rate.pace());
    let takes: Vec<&Call> = tally.takes.iter().collect();
    never_over(&takes, |from, until| {
        let at_once = u128::from(capacity + tally.may_be_back(from, until)) * u128::from(SECOND);
        at_once + (u128::from(until - from) * u128::from(n * SECOND)).div_ceil(u128::from(p))
    })
}
