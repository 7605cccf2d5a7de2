//! A key has the tokens that a move at each change of its plan leaves.

use topup_wire::{constants::PLANS_AHEAD, limit::OnChange};

use crate::{
    clients::Call,
    key_plans::{
        LATE, Said, World,
        laws::most::REMEMBERED,
        periods::{Period, Place},
    },
    plan::SECOND,
};

// === impl World ===

impl World {
    /// A denied take of one token, though the key has two: what it had, moved at each change of its plan. Clients that share a
    /// key all the time may lose tokens that they have in hand.
    pub(super) fn moved(
        &self,
        key: usize,
        periods: &[Period],
        calls: &[Call],
        charges: &[Call],
    ) -> Result<(), String> {
        if !self.is_quiet
            || self.most > 1
            || self.limit.on_change != OnChange::Keep
            || self.clients.slowest > LATE
        {
            return Ok(());
        }
        let mut calls: Vec<&Call> = calls.iter().chain(charges).collect();
        calls.sort_unstable_by_key(|call| call.received);
        let mut instants: Vec<u64> = periods.iter().map(|period| period.from).collect();
        let (mut tokens, mut place, mut at) = (0.0_f64, None, 0);
        for (i, call) in calls.iter().enumerate() {
            // Up to the call, from change to change.
            let changes: Vec<u64> = instants.extract_if(.., |from| *from <= call.received).collect();
            // Redis counts all changes for so long, also those to the plan that the key has, and those to come.
            let from = call.received.saturating_sub(2 * self.limit.plans_fill);
            let until = call.received + PLANS_AHEAD;
            let told = |said: &[Vec<Said>]| {
                said[key].iter().filter(|one| (from..=until).contains(&one.at)).count() > REMEMBERED
            };
            let is_forgotten = changes.len() >= REMEMBERED || self.said.iter().any(|said| told(said));
            let before = place;
            for instant in changes.into_iter().chain([call.received]) {
                let seconds = instant.saturating_sub(at) as f64 / SECOND as f64;
                if let Some(rule) = place.map(|index: usize| self.rules[index]) {
                    tokens = (tokens + rule.rate as f64 * seconds).min(rule.capacity as f64);
                }
                let next = periods.iter().rfind(|period| period.from <= instant).map(|period| period.place);
                if let Some(Place::Bucket(index)) = next
                    && place != Some(index)
                {
                    let capacity = self.rules[index].capacity as f64;
                    // Tokens of takes on their way are lost.
                    let in_hand = calls
                        .iter()
                        .any(|call| call.received + 50_000 > instant && call.sent < instant + LATE);
                    tokens = match place {
                        None => capacity,
                        Some(_) if in_hand => tokens.min(0.0),
                        Some(_) => tokens.min(capacity),
                    };
                    place = Some(index);
                }
                at = instant;
            }
            let has_bucket = periods.iter().all(|period| {
                matches!(period.place, Place::Bucket(_))
                    || call.received < period.from
                    || period.until <= call.sent
            });
            // A part of a token is lost with the move.
            tokens -= if before == place { 0.0 } else { 1.0 };
            match call.is_allowed {
                // More changes than are known. A charge is known all the same.
                _ if is_forgotten => {
                    let taken = if call.is_allowed == Some(false) { 0 } else { call.count };
                    tokens = tokens.min(0.0) - taken as f64;
                }
                Some(false) if !call.waits => {
                    let late = place
                        .map_or(0.0, |index| self.rules[index].rate as f64 * LATE as f64 / SECOND as f64);
                    let on_their_way = calls[i..].iter().filter(|other| other.sent <= call.received).count();
                    if has_bucket && tokens >= 2.0 + late + on_their_way as f64 {
                        return Err(format!("moved: {call:?}, though it has {tokens}"));
                    }
                }
                _ if !has_bucket && call.is_allowed == Some(true) => {}
                _ => tokens -= call.count as f64,
            }
        }
        Ok(())
    }
}
