//! The twin of `sliding_window.lua`.

use topup_wire::{
    bucket::Operation,
    constants::{LOG_BATCH, LOG_KEPT_LONGER, LOG_TOTALS},
    limit::{Algorithm, Rule},
    reply::Settled,
};

use crate::{
    apply::{State, apply, unknown, without_debt, writes},
    record::Record,
};

/// The log of takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingLog(pub Vec<Entry>);

/// Tokens taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: u64,
    /// All that was ever taken, these included, modulo 2^52.
    pub total: u64,
    /// How many.
    pub tokens: u64,
}

// === impl Log ===

impl SlidingLog {
    /// Entries that count at `at` within `length`.
    fn within(&self, at: u64, length: u64) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.at + length > at)
    }

    fn used(&self, at: u64, length: u64) -> u64 {
        self.within(at, length).map(|entry| entry.tokens).sum()
    }

    fn newest(&self) -> (u64, u64) {
        self.0.last().map_or((0, 0), |entry| (entry.at, entry.total))
    }

    fn add(&mut self, at: u64, tokens: u64) {
        let total = (self.newest().1 + tokens) % LOG_TOTALS;
        self.0.push(Entry { at, total, tokens });
    }

    /// Takes up to `count` tokens back, of the newest entries that count first.
    fn take_back(&mut self, mut count: u64, at: u64, length: u64) {
        for _ in 0..LOG_BATCH {
            let counts = self.0.last().is_some_and(|entry| entry.at + length > at);
            let Some(entry) = self.0.pop_if(|_| counts && count > 0) else { break };
            let rest = entry.tokens.saturating_sub(count);
            count = count.saturating_sub(entry.tokens);
            if rest > 0 {
                let total = (entry.total + LOG_TOTALS - (entry.tokens - rest)) % LOG_TOTALS;
                self.0.push(Entry { total, tokens: rest, ..entry });
            }
        }
    }

    /// The log after a step of the clock back to `now`. Tokens that count become entries as of now, or as of just
    /// before the windows in which they no longer count.
    fn stepped_back(&self, lengths: &[u64], now: u64) -> Self {
        let (at, mut log, mut counted) = (self.newest().0, Self::default(), Vec::new());
        counted.extend(lengths.iter().map(|length| self.used(at, *length)));
        for i in (0..lengths.len()).rev() {
            let shorter = i.checked_sub(1);
            let tokens = counted[i] - shorter.map_or(0, |i| counted[i]);
            if tokens > 0 {
                log.add(now - shorter.map_or(0, |i| lengths[i]), tokens);
            }
        }
        log
    }
}

impl State for SlidingLog {
    const ALGORITHM: Algorithm = Algorithm::SlidingWindow;

    fn settle(record: &Record, state: &mut Option<Self>, operation: Operation, now: u64) -> Settled {
        let Some(windows) = record.windows else { return unknown(now) };
        let lengths: Vec<u64> = windows.rules().iter().map(|rule| rule.micros()).collect();
        let (shortest, longest) = (lengths[0], lengths[lengths.len() - 1]);
        let mut log = state.clone().unwrap_or_default();
        let mut at = now.max(log.newest().0);
        let stepped = at - now > shortest;
        if stepped {
            log = log.stepped_back(&lengths, now);
            at = now;
        }
        let free = |log: &Self| {
            let free = |rule: &Rule| rule.tokens().get().saturating_sub(log.used(at, rule.micros()));
            windows.rules().iter().map(free).min().unwrap_or(0) as i64
        };
        let mut settled = apply(record.capacity, free(&log), without_debt(operation), now);
        match operation {
            _ if settled.granted > 0 => log.add(at, settled.granted),
            Operation::Refund(count) if count > 0 => {
                log.take_back(count, at, longest);
                settled.tokens = free(&log);
            }
            Operation::Reset => log.0.clear(),
            _ => {}
        }
        if settled.missing > 0 {
            let wanted = settled.tokens as u64 + settled.missing;
            let leaves = windows.rules().iter().map(|rule| {
                let mut excess = (log.used(at, rule.micros()) + wanted).saturating_sub(rule.tokens().get());
                let mut until = now;
                for entry in log.within(at, rule.micros()) {
                    if excess > 0 {
                        until = entry.at + rule.micros();
                    }
                    excess = excess.saturating_sub(entry.tokens);
                }
                until
            });
            settled.wait = leaves.fold(now, u64::max) - now;
        }
        if writes(operation, settled.verdict, stepped) {
            // Entries that no longer count are trimmed.
            let gone =
                log.0.iter().take(LOG_BATCH as usize).take_while(|entry| entry.at + longest <= at).count();
            log.0.drain(..gone);
            *state = (log.used(at, longest) > 0).then_some(log);
        }
        settled.into()
    }

    fn expiry(&self, record: &Record) -> u64 {
        let longest = record.windows.map_or(0, |windows| windows.longest());
        let (newest, eighth) = (self.newest().0, longest / LOG_KEPT_LONGER + 1);
        (newest - newest % eighth + eighth + longest).div_ceil(1_000)
    }
}
