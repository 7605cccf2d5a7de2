//! What a step is told beside its event.

use topup_wire::bucket::Pace;

use super::{HotCell, Micros, RedisTime};

/// How a bucket of the limit may be taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At rest or counting: by first takes, bare commands and scripts.
    TwoForms,
    /// Always counting (`catch_up = false`, calendar quotas): by bare commands and scripts.
    Counting,
    /// By scripts only.
    Scripted,
}

/// The terms of a limit as published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How tokens come.
    pub pace: Pace,
    /// Most tokens a bucket holds.
    pub capacity: u64,
    /// How a bucket may be taken from.
    pub kind: Kind,
    /// Whether tokens come one by one, so that one denial tells when a larger take will be allowed.
    pub foreseen: bool,
    /// What a worker may take ahead.
    pub lease: Option<LeaseTerms>,
}

/// What a worker may take ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Most tokens in hand.
    pub max: u64,
    /// Longest time a token stays in hand, in µs.
    pub ttl: Micros,
}

/// The worker's surroundings at a step.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The instant of the step.
    pub now: Micros,
    /// The terms of the bucket's limit.
    pub terms: &'a Terms,
    /// The publication that is in force; an estimate of another one is out of date.
    pub epoch: u64,
    /// End of the trust in what is known: no bare command after it. 0 while a change is announced.
    pub trusted_until: Micros,
    /// Longest time from a take to its answer, in µs.
    pub deadline: Micros,
    /// Time from a command to its reply of late, in µs.
    pub round_trip: Micros,
    /// Whether a daemon tops up counting buckets.
    pub daemon_alive: bool,
    /// Whether an absent bucket is full, and first takes of this limit have mostly succeeded of late.
    pub first_takes_pay: bool,
    /// Whether nearly all of them have.
    pub first_takes_sure: bool,
    /// The time of Redis.
    pub redis: RedisTime,
    /// Whether a denial holds; where it does not, nobody waits for tokens.
    pub enforced: bool,
    /// What takers read without a lock.
    pub hot: &'a HotCell,
}

// === impl Terms ===

impl Terms {
    /// µs in which `tokens` come, rounded down; 0 where tokens do not come with time.
    pub(super) fn time_of(&self, tokens: u64) -> Micros {
        let Pace { n, p } = self.pace;
        match n {
            0 => 0,
            1 => tokens.saturating_mul(p),
            _ => {
                let micros = u128::from(tokens) * u128::from(p) / u128::from(n);
                Micros::try_from(micros).unwrap_or(Micros::MAX)
            }
        }
    }

    /// Whether buckets are counters at times.
    pub(super) fn counts(&self) -> bool {
        self.kind != Kind::Scripted
    }
}

impl Context<'_> {
    /// Whether bare commands are allowed now.
    pub(super) fn is_trusted(&self) -> bool {
        self.now < self.trusted_until
    }
}
