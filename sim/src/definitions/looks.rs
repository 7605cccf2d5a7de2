//! Looks at Redis: the terms in force, and the tokens of a key.

use redis::Cmd;
use topup_wire::{
    bucket::{Operation, Pace},
    limit::{MOST_DEFINED, OnChange},
    namespace::Namespace,
    scripts,
};

use super::{STILL, World, history::Seen};
use crate::{
    clients::{Rule, text},
    ideal::Ideal,
    plan::SECOND,
};

// === impl World ===

impl World {
    /// Notes the terms in force, and holds the tokens of a key to an ideal bucket.
    pub(super) async fn look(&mut self) -> Result<(), String> {
        let (now, before) = (self.clients.now(), std::mem::replace(&mut self.looked_at, self.clients.now()));
        let defined = Namespace::default().defined();
        let count: usize = Cmd::hlen(defined).query_async(&mut self.clients.redis).await.map_err(text)?;
        if count > MOST_DEFINED {
            return Err(format!("at most: {count}"));
        }
        if count == MOST_DEFINED {
            self.full_at.push(now);
        }
        let read = scripts::read_limit(&mut self.clients.redis, &self.name).await.map_err(text)?;
        let Some(read) = read else {
            self.still = None;
            return Ok(());
        };
        let record = self.clients.keys(&self.name).record;
        let since: u64 =
            Cmd::hget(record, "since").query_async(&mut self.clients.redis).await.map_err(text)?;
        let (terms, ends) = (read.limit.terms, read.expires.unwrap_or(u64::MAX));
        let Pace { n, p } = terms.supply.pace();
        let rule = Rule::new(terms.capacity.get(), n * SECOND / p);
        let is_new = self.still.is_none()
            || self.seen.last().is_some_and(|last| read.terms_id == 1 && last.since != since);
        match self.seen.last_mut() {
            Some(last) if (last.rule, last.since) == (rule, since) && !is_new => {
                last.until = now.min(ends).max(last.until);
            }
            _ => {
                let is_anew = is_new || self.on_change == OnChange::Reset;
                self.seen.push(Seen { from: before.min(since), until: now.min(ends), rule, since, is_anew });
            }
        }
        self.keep(is_new, rule, since, Pace { n, p }).await
    }

    /// Holds the tokens of the still key to ideal buckets.
    async fn keep(&mut self, is_new: bool, rule: Rule, since: u64, pace: Pace) -> Result<(), String> {
        let (now, tokens) = (self.clients.now(), self.settle(Operation::Peek(1)).await?);
        if is_new {
            self.unsettled = None;
        }
        let still = match &mut self.still {
            Some(still) if !is_new => still,
            still => {
                // A limit that is defined again before its buckets are removed has them. A full instant that its terms
                // cannot give stays as it is until somebody takes.
                self.is_left = tokens < rule.capacity;
                let mut ideal = Ideal::full(rule.capacity, pace, now);
                ideal.take(rule.capacity.saturating_sub(tokens));
                still.insert([ideal; 2])
            }
        };
        for (lost, still) in [0, 2].into_iter().zip(still.iter_mut()) {
            if still.since() < since {
                still.credit(since);
                let from = still.capacity;
                if lost == 0 {
                    let mut filled = Ideal::full(from, still.pace, since);
                    filled.change(rule.capacity, pace, self.on_change, (rule.capacity, from), lost);
                    self.unsettled = Some((since + still.time_to(from), filled));
                }
                still.change(rule.capacity, pace, self.on_change, (rule.capacity, from), lost);
            }
            still.credit(now);
        }
        if let Some((_, filled)) = self.unsettled.filter(|(filled_at, _)| *filled_at <= now)
            && i128::from(tokens) > still[0].level / i128::from(pace.p) + 1
        {
            (self.unsettled, still[0]) = (None, filled);
            still[0].credit(now);
        }
        let most = still[0].level / i128::from(pace.p);
        let least = if self.is_left { 0 } else { still[1].sure() };
        if i128::from(tokens) > most + 1 || tokens + 1 < least {
            let seen = &self.seen[self.seen.len().saturating_sub(3)..];
            return Err(format!(
                "kept: {tokens} tokens at {now}, not {least} to {most}, {:?}, {seen:?}",
                self.on_change
            ));
        }
        Ok(())
    }

    /// Takes a token of the still key.
    pub(super) async fn take_still(&mut self) -> Result<(), String> {
        if self.still.is_some() {
            self.unsettled = None;
            let before = self.settle(Operation::Peek(1)).await?;
            let after = self.settle(Operation::Take(1)).await?;
            self.still.iter_mut().flatten().for_each(|still| still.take(before.saturating_sub(after)));
        }
        Ok(())
    }

    /// Tokens of the still key afterwards.
    async fn settle(&mut self, operation: Operation) -> Result<u64, String> {
        let keys = self.clients.keys(&self.name);
        let redis = &mut self.clients.redis;
        let settled = scripts::settle(redis, self.algorithm, &keys, STILL, operation, false, None).await;
        Ok(settled.map_err(text)?.tokens)
    }
}
