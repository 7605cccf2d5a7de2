//! The laws of plans of keys: see [the module above](super).

use topup_wire::limit::OnChange;

use super::{LATE, Period, Place, World};
use crate::{
    clients::{Call, Rule},
    plan::SECOND,
};

// === impl World ===

impl World {
    pub(super) fn judge(&self, periods: &[Period], calls: &[Call], charges: &[Call]) -> Result<(), String> {
        self.at_its_instant(periods, calls)?;
        self.never_over(periods, calls, charges)?;
        self.kept(periods, calls)?;
        self.moved(periods, calls, charges)
    }

    fn at_its_instant(&self, periods: &[Period], calls: &[Call]) -> Result<(), String> {
        for call in calls {
            let within = |period: &&Period| period.from <= call.sent && call.received < period.until;
            match (periods.iter().find(within).map(|period| period.place), call.is_allowed) {
                (Some(Place::Exempt), Some(false)) | (Some(Place::Deny), Some(true)) => {
                    return Err(format!("at its instant: {call:?}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn never_over(&self, periods: &[Period], calls: &[Call], charges: &[Call]) -> Result<(), String> {
        let is_for = |call: &Call, place: fn(Place) -> bool| {
            let mut at = periods.iter().filter(|period| place(period.place));
            at.any(|period| period.from <= call.received && call.sent < period.until)
        };
        // Charges of an exempt or denied key are of no bucket. A charge on its way may meet a bucket that has
        // been left.
        let has_bucket = |call: &&Call| !is_for(call, |place| !matches!(place, Place::Bucket(_)));
        let charged: Vec<&Call> = charges.iter().filter(has_bucket).collect();
        let counts =
            |call: &&Call| call.is_allowed == Some(true) && !is_for(call, |place| place == Place::Exempt);
        let taken: Vec<&Call> = calls.iter().filter(counts).collect();
        if self.limit.on_change == OnChange::Reset {
            return self.never_over_anew(periods, &taken);
        }
        let proportional = self.limit.on_change == OnChange::Proportional;
        // A scaled debt is another one.
        let charged = if proportional { Vec::new() } else { charged };
        for first in taken.iter().chain(&charged) {
            let mut used = 0.0;
            for call in taken.iter().filter(|call| call.sent >= first.sent) {
                used += call.count as f64 * self.parts(periods, call).min_by(f64::total_cmp).unwrap_or(1.0);
                let before = charged.iter().filter(|one| first.sent <= one.sent && one.received <= call.sent);
                let owed: u64 = before.map(|charge| charge.count).sum();
                let (most, part) = self.most(periods, first, call.received, (calls, charges));
                let slack = part * (1.0 + self.late() as f64 / SECOND as f64);
                if used + owed as f64 >= most + slack - 1e-6 {
                    let (from, until) = (first.sent, call.received);
                    return Err(format!(
                        "never over: {used} and {owed} charged of {most} from {from} to {until}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// With `reset`, a change begins a bucket anew.
    fn never_over_anew(&self, periods: &[Period], taken: &[&Call]) -> Result<(), String> {
        for first in taken {
            let (from, mut tokens) = (first.sent, 0);
            for call in taken.iter().filter(|call| call.sent >= from) {
                tokens += call.count;
                let most = self.most_anew(periods, from, call.received);
                if u128::from(tokens * SECOND) >= most + self.late() + u128::from(SECOND) {
                    let until = call.received;
                    return Err(format!("never over: {tokens} of {most} / {SECOND} from {from} to {until}"));
                }
            }
        }
        Ok(())
    }

    /// A token under each plan that may have decided a call: 1, or with `proportional` its share of the capacity.
    fn parts(&self, periods: &[Period], call: &Call) -> impl Iterator<Item = f64> {
        let at = periods.iter().filter(|period| period.from <= call.received && call.sent < period.until);
        at.filter_map(|period| match period.place {
            Place::Bucket(index) => Some(self.part(self.rules[index])),
            Place::Exempt | Place::Deny => None,
        })
    }

    fn part(&self, rule: Rule) -> f64 {
        if self.limit.on_change == OnChange::Proportional { 1.0 / rule.capacity as f64 } else { 1.0 }
    }

    /// Millionths of a token that commands may take which were late, and met a full bucket: of each client one.
    fn late(&self) -> u128 {
        let rate = self.rules.iter().map(|rule| rule.rate).max().unwrap_or(0);
        let late = rate * self.clients.slowest / 2;
        if self.clients.slowest < LATE { 0 } else { u128::from(self.clients.all.len() as u64 * late) }
    }

    /// The parts that a key may take from the call `first` on, if its tokens move at each change. Then the largest part of
    /// a token.
    fn most(
        &self,
        periods: &[Period],
        first: &Call,
        until: u64,
        (calls, charges): (&[Call], &[Call]),
    ) -> (f64, f64) {
        // While a key is exempt or denied, its bucket stays as it is. If it never had one, the next one is full.
        let place = |period: &Period| match period.place {
            Place::Bucket(index) => Some(index),
            Place::Exempt | Place::Deny => None,
        };
        let rule = |i: usize| {
            let before = periods[..=i].iter().rev().find_map(place);
            before.or_else(|| periods[i..].iter().find_map(place)).map(|index| self.rules[index])
        };
        let seconds = |time: u64| time as f64 / SECOND as f64;
        let (mut capacity, mut comes, mut largest) = (0.0_f64, 0.0, 0.0_f64);
        // The end of the last time with a bucket.
        let mut left = None;
        // The period whose bucket has the tokens.
        let mut held = 0;
        for (i, period) in periods.iter().enumerate() {
            let Some(now) = rule(i) else { continue };
            if place(period).is_some() {
                let rested = left
                    .replace(period.until)
                    .is_some_and(|left| period.from >= left + self.limit.plans_fill);
                if rested && (first.sent..=until).contains(&period.from) {
                    // Redis has forgotten which bucket it had, so the next one is full.
                    comes += now.capacity as f64 * self.part(now);
                }
            }
            if period.from <= first.received && first.sent < period.until {
                capacity = capacity.max(now.capacity as f64 * self.part(now));
            }
            if period.from <= until && first.sent < period.until {
                largest = largest.max(self.part(now));
            }
            let time = until.min(period.until).saturating_sub(first.sent.max(period.from));
            comes += now.rate as f64 * seconds(time) * self.part(now);
            // The first call that may move the tokens: a take or a charge. Until then, they are in the bucket of before.
            let within = calls
                .iter()
                .chain(charges)
                .filter(|call| period.from <= call.received && call.sent <= period.until);
            let Some(moved) = within.map(|call| call.received).min() else { continue };
            let (before, last) = (rule(held), std::mem::replace(&mut held, i));
            // The key may be back at the plan that it had.
            let is_left = |before: &Rule| (last + 1..=i).filter_map(rule).any(|other| other != *before);
            let Some(before) = before.filter(is_left) else { continue };
            let (own_from, begins) = (periods[last].from, periods[last + 1].from);
            if begins >= first.sent && begins <= until {
                // It counts as full at the change if it is full by now.
                let filled = |since: u64| before.rate as f64 * seconds(moved.saturating_sub(since));
                let denies = |call: &&Call| call.is_allowed == Some(false) && call.received <= begins;
                let lacked = calls.iter().filter(denies).filter(|call| call.sent >= own_from);
                let is_full =
                    |call: &Call| filled(call.sent) + (call.count + 1) as f64 >= before.capacity as f64;
                if lacked.into_iter().all(is_full) {
                    let most = before.capacity + self.max_debt;
                    comes += filled(begins).min(most as f64) * self.part(before);
                }
            }
        }
        (capacity + comes, largest)
    }

    /// Millionths of a token that a key may have in a window if each change gives a capacity.
    fn most_anew(&self, periods: &[Period], from: u64, until: u64) -> u128 {
        let (mut capacity, mut rate, mut anew) = (0, 0, 0);
        for period in periods.iter().filter(|period| period.from <= until && from < period.until) {
            let Place::Bucket(index) = period.place else { continue };
            let rule = self.rules[index];
            (capacity, rate) = (rule.capacity.max(capacity), rule.rate.max(rate));
            anew += if period.from > from { rule.capacity } else { 0 };
        }
        u128::from((capacity + anew) * SECOND) + u128::from(rate) * u128::from(until - from)
    }

    /// A denied take of one token, though two have come since the last take, under one of the plans since. Takes at one instant may
    /// deny each other two: a client that asks for three tokens gives back those that it found.
    fn kept(&self, periods: &[Period], calls: &[Call]) -> Result<(), String> {
        if self.most > 1 || self.max_debt > 0 {
            // Others ask for more tokens than there are, and are before this take. Debt has no tokens.
            return Ok(());
        }
        for denied in calls.iter().filter(|call| call.is_allowed == Some(false)) {
            // A denial from memory is as old as its reply.
            let late = LATE + self.clients.slowest;
            // A waiter is before others, even if it goes away in the end.
            let may_take =
                |call: &&Call| (call.is_allowed != Some(false) || call.waits) && call.sent <= denied.received;
            let quiet = calls.iter().filter(may_take).map(|call| call.received).max().unwrap_or(0);
            // Earlier changes than the last ones may be lost.
            let known = periods.partition_point(|period| period.from <= denied.received);
            for period in &periods[known.saturating_sub(6)..known] {
                let Place::Bucket(index) = period.place else { continue };
                let (rule, proportional) =
                    (self.rules[index], self.limit.on_change == OnChange::Proportional);
                let asked = denied.sent.saturating_sub(rule.time_of(1) + late);
                let at_once =
                    calls.iter().filter(|call| (asked..=denied.received).contains(&call.sent)).count();
                let least = if at_once > 2 { 3 } else { 2 };
                let tokens = if proportional { rule.capacity.max(least) } else { least };
                let time = period.until.min(denied.sent).saturating_sub(period.from.max(quiet));
                let denies = |period: &Period| {
                    period.place == Place::Deny
                        && period.from <= denied.received
                        && denied.sent < period.until
                };
                if time > rule.time_of(tokens) + late && !periods.iter().any(denies) {
                    return Err(format!("kept: {denied:?}, nobody took since {quiet}"));
                }
            }
        }
        Ok(())
    }

    /// A denied take of one token, though the key has two: what it had, moved at each change of its plan. Clients that share a
    /// key all the time may lose tokens that they have in hand.
    fn moved(&self, periods: &[Period], calls: &[Call], charges: &[Call]) -> Result<(), String> {
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
        let (mut tokens, mut place, mut at, mut used) = (0.0_f64, None, 0, 0);
        for (i, call) in calls.iter().enumerate() {
            // Up to the call, from change to change.
            let changes: Vec<u64> = instants.extract_if(.., |from| *from <= call.received).collect();
            used += changes.len();
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
                // More changes than are known.
                _ if used > 6 => tokens = tokens.min(0.0),
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
            used = 0;
        }
        Ok(())
    }
}
