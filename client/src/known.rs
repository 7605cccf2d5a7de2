//! What this worker knows of a bucket, so that one command is enough for a take and none for a denial.

use topup_wire::{
    bucket::Pace,
    reply::{Settled, Verdict},
};

use crate::clock::{Micros, cautious};

/// A denial is asked about again after this, in µs, however long it is: someone may have given tokens back.
const TRUST: Micros = 1_000_000;

/// So many workers may have tokens in their hands that a bucket does not know of.
const MOST_WORKERS: u64 = 64;
/// A bucket that is full no sooner than this, in µs, is far from full ...
const FAR: Micros = 1_000_000;
/// ... and a part of what it misses may be put back at any time by those who took it for a crowd.
const PUT_BACK: u64 = 16;

/// So many workers may come for a bucket at once, and none of them knows of the others before it has its answer: a command
/// brings such a part of the leeway.
const ABREAST: u64 = 8;

/// Tokens are so far apart, in µs, that rounding hides none.
const APART: Micros = 10;

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
    /// When it is full, in µs of Redis, if nobody takes but this worker: as a script has said, and so many tokens later.
    /// The one instant of another machine that is kept, to be told to that machine.
    full_in_redis: u64,
    taken_since: u64,
    /// When time has brought all that was taken since the bucket was last full, whatever its counter says: later than that
    /// is true, never earlier.
    even_at: Micros,
    /// Tokens at the last answer ...
    tokens: u64,
    /// ... and when that was asked for.
    seen: Micros,
    /// Capacity at the last answer.
    capacity: u64,
}

/// How tokens come, and how far a bare `DECR` may go beyond what a full bucket would lose: half a tick's credit. Law 1
/// allows a whole one; the other half is for commands that are late on their way, and for workers that do not know of
/// each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) pace: Pace,
    /// Whether tokens come one by one, so that it can be told from one denial when a take of more will be allowed.
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

/// What is told of takes until some instant: a denial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) epoch: u64,
    pub(crate) until: Micros,
    pub(crate) promised: Micros,
    pub(crate) tokens: u64,
    pub(crate) capacity: u64,
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
        let full_at = short_of(sent.saturating_add(cautious(headroom)), sent);
        // Credited up to about then; at most 2 µs later, and rounded.
        let score = sent
            .saturating_add(headroom)
            .saturating_sub(terms.time_of(capacity.saturating_sub(tokens)).saturating_add(3));
        let mut known = Self {
            epoch,
            sent,
            full_at,
            empty_full_at: sent.saturating_add(cautious(empty)),
            full_in_redis: settled.now.saturating_add(headroom),
            stays_until: full_at.max(score.saturating_add(cautious(terms.stay))),
            even_at: received,
            tokens,
            seen: sent,
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

    /// What the answer `tokens` of a bare `DECRBY`, sent at `sent`, tells. True of the bucket whenever it was, so that the
    /// later instant stands; but not of a bucket that the script, asked later, has credited since.
    pub(crate) fn taken(&mut self, tokens: u64, by: u64, asked: Asked, received: Micros) {
        let Asked { sent, terms, .. } = asked;
        if sent < self.sent {
            return;
        }
        self.even_at = self.even_after(tokens, by, terms, received);
        self.taken_since = self.taken_since.saturating_add(by);
        (self.tokens, self.seen) = (tokens, sent);
        // A little less, as that time is rounded down.
        let until = self.empty_full_at.saturating_sub(cautious(terms.time_of(tokens)).saturating_add(2));
        self.full_at = self.full_at.max(short_of(until, sent));
        self.stays_until = self.stays_until.max(self.full_at);
        // A daemon that finds a bucket in use, two tokens below full or more, fills it and comes again later.
        if self.capacity.saturating_sub(tokens) >= 2 {
            self.stays_until = self.stays_until.max(sent.saturating_add(cautious(terms.stay)));
        }
    }

    /// What `even_at` is after an answer, here since `received`. What is missing since the answer before was taken by this
    /// worker or by others, as if at the last moment. They may have taken more where a script has credited the bucket in
    /// between; but until this long after one it has not lost too much yet, and by then it has been full, which is where this
    /// reckoning begins anew. After a longer time all that the bucket misses may have been taken just now.
    fn even_after(&self, tokens: u64, by: u64, terms: Terms, received: Micros) -> Micros {
        let missing = terms.slowly(self.capacity.saturating_sub(tokens));
        let mut behind = missing;
        if received.saturating_sub(self.seen) <= cautious(terms.tick / 4 * 3) {
            let taken = by.max(self.tokens.saturating_sub(tokens));
            behind = self.even_at.saturating_sub(received).saturating_add(terms.slowly(taken)).min(missing);
        }
        received.saturating_add(behind)
    }

    /// The denial of a take as `asked`, when that is known.
    #[inline]
    pub(crate) fn denial(&self, asked: Asked) -> Option<Denial> {
        if self.denied_until == 0 || asked.epoch != self.epoch {
            return None;
        }
        let (until, promised) = self.denied(asked.count, asked.terms)?;
        let wait = promised.saturating_sub(asked.sent);
        (asked.sent < until).then_some(Denial { tokens: self.tokens, capacity: self.capacity, wait })
    }

    /// Until when a take of `count` tokens is denied, and when it is promised them, if that is known.
    fn denied(&self, count: u64, terms: Terms) -> Option<(Micros, Micros)> {
        // More than fits is refused, not denied: Redis says so.
        if count < self.denied_count || count > self.capacity {
            return None;
        }
        match count - self.denied_count {
            0 => Some((self.denied_until, self.promised_at)),
            _ if !terms.foreseen => None,
            more => {
                let later = terms.time_of(more);
                let until = self.denied_until.saturating_add(later).min(self.sent.saturating_add(TRUST));
                // Rounded down, unless a token takes whole µs.
                let rounded = u64::from(terms.pace.n > 1);
                Some((until, self.promised_at.saturating_add(later).saturating_add(rounded)))
            }
        }
    }

    /// The epoch of a denial, if one is known.
    #[inline]
    pub(crate) fn denied_under(&self) -> Option<u64> {
        (self.denied_until > 0).then_some(self.epoch)
    }

    /// What to tell of a take of one token behind `others` that are spoken for, whenever it is asked for.
    pub(crate) fn refusal(&self, others: u64, terms: Terms) -> Option<Refusal> {
        let (until, promised) = self.denied(others.saturating_add(1), terms)?;
        let &Self { epoch, tokens, capacity, .. } = self;
        Some(Refusal { epoch, until, promised, tokens, capacity })
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
        let even = || {
            let behind = self.even_at.saturating_sub(now).saturating_add(terms.slowly(takes));
            takes <= terms.leeway.div_ceil(ABREAST) && behind <= terms.slowly(terms.leeway)
        };
        now < self.full_at
            || (!ahead
                && now < self.stays_until
                && (now < self.full_at.saturating_add(terms.tick / 2)
                    || missing.saturating_add(takes) <= terms.leeway
                    || even()))
    }

    /// Until when `ahead` tokens taken of it may be spent: until it would be full if it still had them, and half a tick.
    pub(crate) fn lent_until(&self, ahead: u64, terms: Terms) -> Micros {
        let held = terms.time_of(self.tokens.saturating_add(ahead));
        self.empty_full_at.saturating_sub(cautious(held).saturating_add(2)).saturating_add(terms.tick / 2)
    }

    /// How many tokens may be in the hands of this worker for the time of a few commands, with nobody the worse for it:
    /// a small part of what the bucket holds; and such a part of what it misses that, were those of many workers put back
    /// at once, it would be no fuller than they all reckon with. Near full, as many as `Terms::few`.
    pub(crate) fn in_hand(&self, terms: Terms) -> u64 {
        let missing = self.capacity.saturating_sub(self.tokens);
        let far = terms.time_of(missing) >= FAR;
        // Half of that: it may come nearer meanwhile.
        let apart = if far { missing / (2 * MOST_WORKERS * PUT_BACK) } else { 0 };
        (self.tokens / MOST_WORKERS).min(apart.max(terms.few()))
    }

    /// When the bucket is full, in µs of Redis, if nobody takes but this worker; where that is known, and tokens are so far
    /// apart that one taken by somebody else can be told.
    pub(crate) fn full_in_redis(&self, terms: Terms) -> Option<u64> {
        let told = self.full_in_redis > 0 && terms.time_of(1) >= APART;
        told.then(|| self.full_in_redis.saturating_add(terms.time_of(self.taken_since)))
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

/// Until when a bucket that is below full until `full_at`, as far as an answer of `then` tells, is so whatever is put back.
fn short_of(full_at: Micros, then: Micros) -> Micros {
    let headroom = full_at.saturating_sub(then);
    if headroom < FAR / 2 { full_at } else { full_at - headroom / PUT_BACK }
}

// === impl Terms ===

impl Terms {
    /// So few tokens that each of many workers may have them from a bucket that is full already: together, they are
    /// within what law 1 leaves.
    pub(crate) fn few(self) -> u64 {
        self.leeway / MOST_WORKERS
    }

    /// µs in which `tokens` have certainly come, by any clock that is trusted.
    fn slowly(self, tokens: u64) -> Micros {
        let time = self.time_of(tokens).saturating_add(u64::from(self.pace.n > 1));
        time.saturating_add(time.div_ceil(63))
    }

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
