//! What this worker knows of a bucket, so that one command is enough for a take and none for a denial.

use topup_wire::{
    bucket::Pace,
    reply::{Settled, Verdict},
};

use crate::clock::{Micros, cautious};

/// A denial is asked about again after this, in µs, however long it is: someone may have given tokens back.
const TRUST: Micros = 1_000_000;

/// What is known of one bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The generation of what is published that this is known under.
    epoch: u64,
    /// When the script was asked that told what follows.
    sent: Micros,
    /// Below full until then, whoever credits.
    full_at: Micros,
    /// When the bucket would be full if it had been emptied: each token it holds brings that nearer by one token's time.
    empty_full_at: Micros,
    /// The daemon leaves the counter alone until then.
    stays_until: Micros,
    /// Denied until then at least, so that no one is denied who would be allowed ...
    denied_until: Micros,
    /// ... and no longer than this, which is what is told: whoever comes then is not too early.
    promised_at: Micros,
    /// The smallest count that was denied.
    denied_count: u64,
    /// Tokens at the last answer.
    tokens: u64,
    /// Capacity at the last answer.
    capacity: u64,
}

/// How tokens come, and how far a bare `DECR` may go beyond what a full bucket would lose: half a tick's credit. Law 1
/// allows a whole one; the other half is for commands that are late on their way, and for workers that do not know of
/// each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) pace: Pace,
    /// Whether it can be told from one denial when a take of more will be allowed.
    pub(crate) foreseen: bool,
    /// The refill period; 0 where there is no leeway.
    pub(crate) tick: Micros,
    /// Tokens that come in half of it.
    pub(crate) leeway: u64,
    /// A bucket no farther from full than the leeway keeps its counter for so long after it was written, and any bucket
    /// that misses two tokens.
    pub(crate) stay: Micros,
}

/// What was asked, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Tokens asked for, by one take.
    pub(crate) count: u64,
    /// Just before the question was sent.
    pub(crate) sent: Micros,
    /// The terms of the limit.
    pub(crate) terms: Terms,
    /// What was published then.
    pub(crate) epoch: u64,
}

/// A denial told from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) tokens: u64,
    pub(crate) capacity: u64,
    pub(crate) wait: Micros,
}

// === impl Denial ===

impl From<&Settled> for Denial {
    fn from(settled: &Settled) -> Self {
        let &Settled { tokens, capacity, wait, .. } = settled;
        Self { tokens, capacity, wait }
    }
}

// === impl Known ===

impl Known {
    /// What an answer of a script, here since `received`, tells.
    pub(crate) fn learned(settled: &Settled, asked: Asked, received: Micros) -> Self {
        let Asked { count, sent, terms, epoch } = asked;
        let &Settled { tokens, capacity, wait, headroom, .. } = settled;
        // Counted from before the question: whatever the way took, the bucket is not fuller than this says.
        let empty = headroom.saturating_add(terms.time_of(tokens));
        let full_at = sent.saturating_add(cautious(headroom));
        // Credited up to about then; at most 2 µs later, and rounded.
        let score = sent
            .saturating_add(headroom)
            .saturating_sub(terms.time_of(capacity.saturating_sub(tokens)).saturating_add(3));
        let mut known = Self {
            epoch,
            sent,
            full_at,
            empty_full_at: sent.saturating_add(cautious(empty)),
            stays_until: full_at.max(score.saturating_add(cautious(terms.stay))),
            tokens,
            capacity,
            ..Self::default()
        };
        if wait > 0 {
            known.denied_until = sent.saturating_add(wait.min(TRUST));
            known.promised_at = received.saturating_add(wait);
            known.denied_count = if settled.verdict == Verdict::Denied { count } else { 1 };
        }
        known
    }

    /// What the answer `tokens` of a bare `DECR`, sent at `sent`, tells. True of the bucket whenever it was, so that the
    /// later instant stands; but not of a bucket that the script, asked later, has credited since.
    pub(crate) fn taken(&mut self, tokens: u64, asked: Asked) {
        let Asked { sent, terms, .. } = asked;
        if sent < self.sent {
            return;
        }
        self.tokens = tokens;
        // A little less, as that time is rounded down.
        let until = self.empty_full_at.saturating_sub(cautious(terms.time_of(tokens)).saturating_add(2));
        self.full_at = self.full_at.max(until);
        self.stays_until = self.stays_until.max(self.full_at);
        // A daemon that finds a bucket in use, two tokens below full or more, fills it and comes again later.
        if self.capacity.saturating_sub(tokens) >= 2 {
            self.stays_until = self.stays_until.max(sent.saturating_add(cautious(terms.stay)));
        }
    }

    /// The denial of a take as `asked`, when that is known.
    pub(crate) fn denial(&self, asked: Asked) -> Option<Denial> {
        let Asked { count, sent: now, terms, epoch } = asked;
        // More than fits is refused, not denied: Redis says so.
        let comparable = self.denied_count <= count && count <= self.capacity;
        if epoch != self.epoch || !comparable || now >= self.denied_until {
            return None;
        }
        let more = match count - self.denied_count {
            0 => 0,
            _ if !terms.foreseen => return None,
            // Rounded down, unless a token takes whole µs.
            more => terms.time_of(more).saturating_add(u64::from(terms.pace.n > 1)),
        };
        let wait = self.promised_at.saturating_add(more).saturating_sub(now);
        Some(Denial { tokens: self.tokens, capacity: self.capacity, wait })
    }

    /// Whether a bare `DECR` is right, also for so many takes of one token at once, asked as said. For tokens that are
    /// not spent at once there is no leeway: it is needed when they are.
    pub(crate) fn below_full(&self, takes: u64, asked: Asked, ahead: bool) -> bool {
        let Asked { sent: now, terms, epoch, .. } = asked;
        // An emptied bucket is asked for by script: only that credits what is owed right now.
        if epoch != self.epoch || self.tokens < takes {
            return false;
        }
        let missing = self.capacity.saturating_sub(self.tokens);
        now < self.full_at
            || (!ahead
                && now < self.stays_until
                && (now < self.full_at.saturating_add(terms.tick / 2)
                    || missing.saturating_add(takes) <= terms.leeway))
    }

    /// Until when `ahead` tokens taken of it may be spent: until it would be full if it still had them, and half a tick.
    pub(crate) fn lent_until(&self, ahead: u64, terms: Terms) -> Micros {
        let held = terms.time_of(self.tokens.saturating_add(ahead));
        self.empty_full_at.saturating_sub(cautious(held).saturating_add(2)).saturating_add(terms.tick / 2)
    }

    /// Tokens in the bucket at the last answer.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The most the bucket holds.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }
}

// === impl Terms ===

impl Terms {
    /// µs in which `tokens` come; none come with time to a calendar quota, and none of its tokens delay its filling.
    pub(crate) fn time_of(self, tokens: u64) -> Micros {
        let Pace { n, p } = self.pace;
        if n == 0 {
            return 0;
        }
        if n == 1 {
            return tokens.saturating_mul(p);
        }
        let micros = u128::from(tokens) * u128::from(p) / u128::from(n);
        Micros::try_from(micros).unwrap_or(Micros::MAX)
    }
}

#[cfg(test)]
mod tests;
