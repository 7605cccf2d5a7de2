//! A limit's record as the scripts see it, and the tokens of a bucket under it.

use topup_wire::{
    bucket::{Pace, refill_period},
    constants::{BAND_STRIDE, LAST_BAND, LATEST_START, QUOTA_RETRY, TAGS},
    limit::{Limit, OnChange, Schedule, Supply, Windows},
    scripts::{is_clean_counter, read_counter, rests_as_number},
};

use crate::{counter::Counter, time::Credit};

/// The previous terms, and the effect of the last change on tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousTerms {
    /// Capacity before the change.
    pub capacity: u64,
    /// Pace before the change.
    pub pace: Pace,
    /// When a calendar quota was last filled before the change; 0 for a rate.
    pub filled: u64,
    /// The effect of the change on tokens.
    pub on_change: OnChange,
}

/// One shard's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Most tokens a bucket holds.
    pub capacity: u64,
    /// The rate.
    pub pace: Pace,
    /// Whether a settle credits the tokens owed.
    pub catch_up: bool,
    /// The refill period, in µs.
    pub tick: u64,
    /// The effect of the next change on tokens.
    pub on_change: OnChange,
    /// When a calendar quota was last filled; 0 for a rate.
    pub filled: u64,
    /// When a calendar quota is filled next; 0 for a rate.
    pub fills: u64,
    /// Counts the changes of capacity and pace, from the instant of publication on: buckets at rest say under which
    /// they were written.
    pub terms_id: u64,
    /// The instant from which these terms apply.
    pub since: u64,
    /// Tokens of an absent bucket at `anchored`.
    pub anchor: u64,
    /// The instant `anchor` speaks of.
    pub anchored: u64,
    /// The terms before the last change, if there was one.
    pub previous: Option<PreviousTerms>,
    /// Rules about windows, of a limit that has them.
    pub windows: Option<Windows>,
    /// The changes that a schedule makes next.
    pub schedule: Schedule,
}

// === impl Record ===

impl Record {
    /// The record of a limit published for the first time.
    pub fn new(limit: &Limit, now: u64) -> Self {
        let capacity = limit.terms.capacity.get();
        let (filled, fills) = match limit.terms.supply {
            Supply::Rate(_) | Supply::Windows(_) | Supply::Permits(_) => (0, 0),
            Supply::Period(period) => (period.since, period.next),
        };
        Self {
            capacity,
            pace: limit.terms.supply.pace(),
            catch_up: limit.catch_up,
            tick: limit.tick.as_micros() as u64,
            on_change: limit.on_change,
            filled,
            fills,
            terms_id: 1,
            since: now,
            anchor: capacity,
            anchored: now,
            previous: None,
            windows: if let Supply::Windows(windows) = limit.terms.supply { Some(windows) } else { None },
            schedule: limit.schedule,
        }
    }

    /// `publish.lua` over a record without buckets to be migrated. Returns the record after it, as of `at`.
    #[must_use]
    pub fn changed(&self, limit: &Limit, at: u64) -> Self {
        let fresh = Self::new(limit, at);
        if fresh.windows.is_some() {
            let since = if fresh.windows == self.windows { self.since } else { at };
            let Self { terms_id, anchor, anchored, .. } = *self;
            return Self { terms_id, since, anchor, anchored, ..fresh };
        }
        if (fresh.capacity, fresh.pace) == (self.capacity, self.pace) {
            let Self { terms_id, since, anchor, anchored, previous, .. } = *self;
            return Self { terms_id, since, anchor, anchored, previous, ..fresh };
        }
        let (filled, on_change) = (self.last_filled(at), fresh.on_change);
        let before = PreviousTerms { capacity: self.capacity, pace: self.pace, filled, on_change };
        let changed = Self { terms_id: self.terms_id + 1, previous: Some(before), ..fresh };
        let (anchor, anchored) = changed.migrate(before, self.anchor as i64, self.anchored);
        Self { anchor: anchor as u64, anchored, ..changed }
    }

    /// The length of the one window of a limit that has one, and whether it is aligned.
    pub(crate) fn window(&self) -> Option<(u64, bool)> {
        self.windows.map(|windows| (windows.longest(), windows.aligned()))
    }

    pub(crate) fn last_filled(&self, now: u64) -> u64 {
        if self.fills > 0 && now >= self.fills { self.fills } else { self.filled }
    }

    fn fresh(&self, now: u64) -> u64 {
        if self.pace.n == 0 { now.max(self.last_filled(now)) } else { self.pace.start(now) }
    }

    pub(crate) fn credit(&self, tokens: i64, score: u64, now: u64) -> (i64, u64) {
        if self.pace.n == 0 && score < self.last_filled(now) {
            return (self.capacity as i64, self.fresh(now));
        }
        if score > now + LATEST_START {
            return (tokens.min(self.capacity as i64), self.fresh(now));
        }
        let (k, at) = self.pace.owed(score, now);
        if i128::from(tokens) + k as i128 >= i128::from(self.capacity) {
            return (self.capacity as i64, self.fresh(now));
        }
        (tokens + k as i64, at)
    }

    pub(crate) fn absent(&self, now: u64) -> (i64, u64) {
        if self.anchor >= self.capacity {
            return (self.capacity as i64, self.fresh(now));
        }
        self.credit(self.anchor as i64, self.anchored, now)
    }

    /// The instant from which an absent bucket is full.
    pub fn absent_full(&self) -> u64 {
        if self.anchor >= self.capacity {
            return 0;
        }
        self.pace.instant(self.anchored, self.capacity - self.anchor)
    }

    /// Whether buckets at rest of a token bucket under these terms are kept as integers, once an absent one is full.
    pub(crate) fn may_rest_as_number(&self) -> bool {
        self.catch_up && rests_as_number(self.capacity, self.pace)
    }

    /// The tokens of a counter that holds `number`, and whether takes of a bucket at rest have met it.
    pub fn counted(&self, number: i64) -> (u64, bool) {
        if !self.may_rest_as_number() || is_clean_counter(number, self.capacity, self.pace) {
            return (number.max(0) as u64, false);
        }
        (read_counter(number, self.capacity, self.pace).unwrap_or(0), true)
    }

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

    pub(crate) fn time_to(&self, score: u64, k: u64, now: u64) -> u64 {
        if self.pace.n > 0 {
            return self.pace.instant(score, k).saturating_sub(now);
        }
        if self.fills > now { self.fills - now } else { QUOTA_RETRY }
    }

    /// µs from `now` until a bucket of `tokens` has `missing` more.
    pub(crate) fn wait_for(&self, tokens: i64, score: u64, missing: u64, now: u64) -> u64 {
        if self.schedule.is_empty() {
            return self.time_to(score, missing, now);
        }
        self.reached(tokens, score, Some(tokens + missing as i64)).saturating_sub(now)
    }

    pub(crate) fn headroom(&self, score: u64, tokens: i64, now: u64) -> u64 {
        let full = if self.pace.n > 0 { self.pace.instant(score, self.missing(tokens)) } else { self.fills };
        full.saturating_sub(now)
    }

    /// Tokens until a bucket of `tokens` is full.
    pub(crate) fn missing(&self, tokens: i64) -> u64 {
        (self.capacity as i64 - tokens) as u64
    }

    /// Whether buckets may be at rest: they fill at a rate, and a settle credits the tokens owed.
    pub(crate) const fn rests(&self) -> bool {
        self.pace.n > 0 && self.catch_up
    }

    /// The tag of the present terms in a value at rest.
    pub(crate) fn tag(&self) -> u16 {
        (self.terms_id % TAGS) as u16
    }

    /// Whether a bucket of `tokens` needs no key.
    pub(crate) fn vanishes(&self, tokens: i64, now: u64) -> bool {
        let full = self.capacity as i64;
        tokens >= full && self.absent(now).0 >= full
    }

    pub(crate) fn counter(&self, tokens: i64, score: u64) -> Counter {
        let band = self.band(tokens);
        Counter { tokens, score, band, is_previous: false }
    }

    /// The shortest time, in µs, from being credited to being due again.
    pub fn period(&self) -> u64 {
        refill_period(self.pace, self.catch_up, self.tick)
    }

    /// Backoff band of a bucket: in band 1 it cannot be full for 5 periods, in band 2 for 20, and so on.
    pub fn band(&self, tokens: i64) -> u32 {
        if self.pace.n == 0 || !self.catch_up {
            return 0;
        }
        // Doubles, as in Lua.
        let in_a_period = (self.period() as f64 * self.pace.n as f64 / self.pace.p as f64).ceil();
        let missing = self.missing(tokens) as f64;
        let near = (BAND_STRIDE + 1) as f64 * in_a_period;
        (0..LAST_BAND).take_while(|band| missing > near * BAND_STRIDE.pow(*band) as f64).count() as u32
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
