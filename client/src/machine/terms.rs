//! The input of a step beside its event: the limit's terms, and the worker's surroundings.

use std::time::Duration;

use topup_wire::{bucket::Pace, constants::FREEZE_MICROS, limit, scripts::key_at_rest_until};

use super::{HotCell, Micros, RedisTime};

/// The likelihood that a first take succeeds, by recent ones of the same limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstTakes {
    /// Most have failed lately, or an absent bucket is not full.
    Unlikely,
    /// Most have succeeded lately.
    Likely,
    /// Nearly all have succeeded lately.
    Sure,
}

/// The commands that may take from buckets of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At rest or counting: first takes, takes at rest, bare commands and scripts.
    TwoForms,
    /// Always counting (`catch_up = false`, calendar quotas): bare commands and scripts.
    Counting,
    /// Fixed windows: native commands count takes of one token, and scripts do everything else.
    Window(WindowTerms),
    /// Scripts only.
    Scripted,
}

/// The windows of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowTerms {
    /// Their length, in µs.
    pub length: Micros,
    /// Whether they begin at multiples of their length. Otherwise they begin with a take.
    pub aligned: bool,
}

/// The terms of a limit as a worker has read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The number of these terms among those that the limit has had.
    pub id: u64,
    /// The rate: `n` tokens every `p` µs.
    pub pace: Pace,
    /// Most tokens a bucket holds.
    pub capacity: u64,
    /// The commands that may take.
    pub kind: Kind,
    /// Whether tokens come one by one, so that the denial of a small take tells when a larger one will be allowed.
    pub foreseen: bool,
    /// Whether a waiter may reserve tokens that others would take before it.
    pub reserves: bool,
    /// The limit's lease, if it has one.
    pub lease: Option<LeaseTerms>,
    /// The change of terms by the limit's schedule, if one is ahead.
    pub change: Option<ChangeAhead>,
    /// Keys of buckets at rest under earlier terms may be left until then, in µs of Redis `TIME`.
    pub earlier_until: u64,
}

/// A change of terms ahead. Instants are in µs of Redis `TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeAhead {
    /// The instant of the change.
    pub at: u64,
    /// The instant by which every bucket is full, whatever was taken before the change.
    pub full_by: u64,
}

/// A lease: bounds of the tokens that a worker may prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Most prefetched tokens.
    pub max: u64,
    /// Longest time from prefetch to use, in µs.
    pub ttl: Micros,
}

/// The worker's surroundings at a step.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The instant of the step.
    pub now: Micros,
    /// The terms of the bucket's limit.
    pub terms: &'a Terms,
    /// The publication in force. An estimate of another one is out of date.
    pub epoch: u64,
    /// End of the trust in the estimate: no bare command after it. 0 while a change of terms is announced.
    pub trusted_until: Micros,
    /// Longest time from a take to its answer, in µs.
    pub deadline: Micros,
    /// Mean time from a command to its reply, in µs.
    pub round_trip: Micros,
    /// Whether a daemon refills counting buckets.
    pub daemon_alive: bool,
    /// The likelihood that a first take succeeds.
    pub first_takes: FirstTakes,
    /// The worker's knowledge of Redis `TIME`.
    pub redis: RedisTime,
    /// Whether the limit is enforced. If it is not, no caller waits for tokens.
    pub enforced: bool,
    /// End of the pause of the bucket; 0 without one. No tokens are taken before it.
    pub paused_until: Micros,
    /// The part of the bucket that takes read without a lock.
    pub hot: &'a HotCell,
}

// === impl WindowTerms ===

impl WindowTerms {
    /// The end of the aligned window at an instant.
    pub(super) const fn end(self, instant: u64) -> u64 {
        (instant - instant % self.length).saturating_add(self.length)
    }
}

// === impl Terms ===

impl Terms {
    /// These terms, of a worker that acted under those of `before` until the instant `now` of Redis `TIME`, in µs.
    #[must_use]
    pub fn after(self, before: Option<&Self>, now: u64) -> Self {
        let earlier_until = match before {
            Some(before) if before.id == self.id => before.earlier_until,
            Some(before) => key_at_rest_until(before.pace, before.capacity, now).max(before.earlier_until),
            None => 0,
        };
        Self { earlier_until: earlier_until.max(self.earlier_until), ..self }
    }

    /// End of the trust in an estimate, by the worker's clock. It ends a freeze before a change ahead: then only
    /// scripts take, until the record is read again.
    pub fn trusted_until(&self, trusted_until: Micros, redis: RedisTime) -> Micros {
        let freezes = |change: ChangeAhead| redis.earliest_local(change.at.saturating_sub(FREEZE_MICROS));
        self.change.map_or(trusted_until, |change| trusted_until.min(freezes(change)))
    }

    /// The expiry of a bucket at rest that is full at `full_at` under these terms. A change ahead may make it full
    /// later.
    pub fn lives_until(&self, full_at: u64) -> u64 {
        self.change.filter(|change| full_at > change.at).map_or(full_at, |change| full_at.max(change.full_by))
    }

    /// Whether the key of a first take of `count` tokens expires before a change ahead.
    pub(super) fn is_full_before_change(&self, count: u64, now: u64) -> bool {
        self.change.is_none_or(|change| key_at_rest_until(self.pace, count, now) <= change.at)
    }

    /// µs in which `tokens` come, rounded down; 0 if tokens do not come with time.
    pub(super) fn time_of(&self, tokens: u64) -> Micros {
        self.pace.time_of(tokens)
    }

    /// What tells these terms from others of the limit, and of one of the same name that is made anew: number, capacity and rate.
    pub(super) const fn identity(&self) -> (u64, u64, Pace) {
        (self.id, self.capacity, self.pace)
    }

    /// The longest time from a reservation to its tokens, in µs.
    pub(super) fn longest_delay(&self) -> Micros {
        self.pace.longest_delay(self.capacity)
    }

    /// µs between two tokens, rounded down; at least 1.
    pub(super) fn token_time(&self) -> Micros {
        self.pace.token_time()
    }

    /// Whether a bucket fills by an eighth of a token at most. The time is `micros`, and that for which other workers have its
    /// tokens in hand. A put-back of an unused token then exceeds the capacity by an eighth at most.
    ///
    /// Always false for a window: the instant at which its tokens come back depends on each take. Always true for a
    /// calendar quota, which is filled at the end of its period.
    pub(super) fn hardly_fills_in(&self, micros: Micros) -> bool {
        if self.pace.n == 0 {
            return self.kind == Kind::Counting;
        }
        micros.saturating_add(2 * self.in_hand_for()).saturating_mul(8) <= self.time_of(1)
    }

    /// The longest time in µs for which a worker has tokens in hand, by a clock that runs slow.
    pub(super) fn in_hand_for(&self) -> Micros {
        limit::in_hand_for(self.lease.map(|lease| Duration::from_micros(lease.ttl))).as_micros() as Micros
    }

    /// Whether buckets may count.
    pub(crate) fn counts(&self) -> bool {
        matches!(self.kind, Kind::TwoForms | Kind::Counting)
    }
}

impl Context<'_> {
    /// Whether the terms may have been changed by their schedule.
    pub(super) fn is_past_change(&self) -> bool {
        self.terms.change.is_some_and(|change| self.redis.latest(self.now) >= change.at)
    }

    /// Whether bare commands are allowed now.
    pub(super) fn is_trusted(&self) -> bool {
        self.now < self.trusted_until
    }
}
