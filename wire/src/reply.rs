//! Replies of scripts.

mod daemon;
mod numbers;

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

pub use daemon::{Beat, Migrated, PublishReply, Refilled};
use numbers::{count, exactly, generation, numbers};

use crate::{
    bucket::{Operation, Pace},
    constants::FIRST_TAKE_LATE,
    limit::{Assigned, Capacity, Limit, Past, PlanSources, Plans},
    schema::NewerSchema,
};

/// The verdict on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A take was allowed, or another operation is done.
    Allowed,
    /// A take was denied.
    Denied,
    /// No such limit is published, or it is of another algorithm.
    Unknown,
    /// A take of more tokens than the bucket ever holds.
    ExceedsCapacity,
}

/// The reply to an operation, with all its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The verdict.
    pub verdict: Verdict,
    /// Tokens in the bucket after it.
    pub tokens: u64,
    /// The most tokens in it.
    pub capacity: u64,
    /// µs until a denied take would be allowed. Where no token is left, µs until the next one. For an
    /// allowed reservation, µs until its turn. 0 otherwise.
    pub wait: u64,
    /// µs for which the bucket stays below full if nothing more is taken. A bare `DECR` is right for so long.
    pub headroom: u64,
    /// The instant of the decision, in µs of Redis `TIME`.
    pub now: u64,
    /// Tokens taken.
    pub granted: u64,
    /// Whether the bucket is counting after it, so that bare commands are possible.
    pub counting: bool,
}

/// The reply to a put-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutInReply {
    /// The tokens are in the bucket.
    Done(Settled),
    /// The bucket has ended counting, and other workers may have tokens of it in hand. Put the tokens in again after
    /// `wait`.
    Again(Settled),
}

/// A published limit, and the other fields of its record that workers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedLimit {
    /// The limit.
    pub limit: Limit,
    /// Number of its present terms. Buckets at rest name the terms that they were written under.
    pub terms_id: u64,
    /// Whether a change is announced. Until it is made, workers take by script only.
    pub frozen: bool,
    /// The instant, in µs of Redis `TIME`, from which an absent bucket is full. No first takes before it. 0 unless a
    /// raised capacity is still filling.
    pub absent_full_at: u64,
    /// The plans and assignments in force before [`plans_at`](Self::plans_at).
    pub plans_before: Plans,
    /// Earlier plans and assignments, the newest first, as far back as they may matter for tokens.
    pub plans_past: Vec<Past<Plans>>,
    /// The instant from which those of [`limit`](Self::limit) are in force, in µs of Redis `TIME`; 0 if they never changed.
    pub plans_at: u64,
    /// The end of a limit that code has defined, in µs of Redis `TIME`; `None` for a limit of a config. It is not in force
    /// from then on, whether its record is still there or not.
    pub expires: Option<u64>,
}

// === impl PublishedLimit ===

impl PublishedLimit {
    /// All that assigns `key` to a plan. `assigned` are its assignments by hand and by the source.
    pub fn plan_sources<'a>(&'a self, key: &'a str, assigned: [Option<Assigned>; 2]) -> PlanSources<'a> {
        let [by_hand, by_source] = assigned;
        PlanSources {
            key,
            config: &self.limit.plans,
            config_before: &self.plans_before,
            config_at: self.plans_at,
            config_past: &self.plans_past,
            by_hand,
            by_source,
        }
    }
}

/// The reply of `CL.THROTTLE`, and of `throttle.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled {
    /// Whether the call is over the limit. Such a call does not count.
    pub limited: bool,
    /// The most at once: `max_burst` + 1.
    pub limit: u64,
    /// The quantity that a call could have now.
    pub remaining: u64,
    /// Whole seconds until the same call would be allowed; `None` if it was, or never would be.
    pub retry_after: Option<u64>,
    /// Whole seconds until a call could have all of `limit`.
    pub reset_after: u64,
}

/// The reply of `poll.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// The instant of Redis, in µs.
    pub now: u64,
    /// The generation published, `None` when nothing is.
    pub generation: Option<u64>,
    /// Daemons whose heartbeat is still good.
    pub daemons: u64,
    /// The schema in Redis, if this version does not know it.
    pub newer_schema: Option<NewerSchema>,
    /// Whether the server knows `PEXPIREAT … GT`, which takes at rest need.
    pub extends: bool,
    /// The version of all [pauses](crate::scripts::Pauses); 0 without any.
    pub paused: u64,
    /// The version of all [assignments](crate::scripts::AssignmentIndex); 0 without any, `None` for a user who may not read
    /// them.
    pub assigned: Option<u64>,
}

// === impl Settled ===

impl Settled {
    /// The reply to `operation` under a limit that is off: the bucket is full, and stays so. Redis is not asked.
    pub const fn free(capacity: Capacity, operation: Operation) -> Self {
        let (tokens, granted) = (capacity.get(), operation.takes());
        let verdict = Verdict::Allowed;
        Self { verdict, tokens, capacity: tokens, wait: 0, headroom: 0, now: 0, granted, counting: false }
    }

    /// Reads a reply of one number: a take or a share was granted all of its `count` tokens. The number is the tokens left
    /// in a window, which has no pace, and else the headroom.
    ///
    /// `now` and `wait` are 0, since the number does not tell them. `tokens` is exact up to the tokens of 3 µs.
    pub fn from_number(number: u64, capacity: Capacity, pace: Pace, count: u64) -> Self {
        if pace.n == 0 {
            let settled = Self::free(capacity, Operation::Take(count));
            return Self { tokens: number, ..settled };
        }
        let (headroom, counting, capacity) = (number / 2, number % 2 == 1, capacity.get());
        // A bucket that has just stopped being full begins to fill up to 2 µs late. A token falls on a whole µs.
        let late = if pace.n > 1 { FIRST_TAKE_LATE } else { 0 };
        let time = u128::from(headroom.saturating_sub(late));
        let missing = (time * u128::from(pace.n)).div_ceil(u128::from(pace.p));
        let tokens = u64::try_from(missing).map_or(0, |missing| capacity.saturating_sub(missing));
        let verdict = Verdict::Allowed;
        Self { verdict, tokens, capacity, wait: 0, headroom, now: 0, granted: count, counting }
    }

    /// Reads the numbers of a reply.
    fn read(numbers: [i64; 8]) -> Result<Self, ParsingError> {
        let [verdict, tokens, capacity, wait, headroom, now, granted, counting] = numbers;
        let verdict = match verdict {
            1 => Verdict::Allowed,
            0 => Verdict::Denied,
            -1 => Verdict::Unknown,
            -2 => Verdict::ExceedsCapacity,
            other => return Err(ParsingError::from(format!("{other} is no verdict"))),
        };
        let [tokens, capacity, wait] = [count(tokens)?, count(capacity)?, count(wait)?];
        let [headroom, now, granted] = [count(headroom)?, count(now)?, count(granted)?];
        let counting = counting == 1;
        Ok(Self { verdict, tokens, capacity, wait, headroom, now, granted, counting })
    }
}

// === impl FromRedisValue ===

impl FromRedisValue for Settled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        Self::read(numbers(value)?)
    }
}

impl FromRedisValue for PutInReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut numbers: Vec<i64> = from_redis_value(value)?;
        let again =
            numbers.first_mut().filter(|verdict| **verdict == 2).map(|verdict| *verdict = 1).is_some();
        Settled::try_from(numbers).map(if again { Self::Again } else { Self::Done })
    }
}

impl TryFrom<Vec<i64>> for Settled {
    type Error = ParsingError;

    fn try_from(numbers: Vec<i64>) -> Result<Self, ParsingError> {
        Self::read(exactly(numbers)?)
    }
}

impl FromRedisValue for Throttled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [limited, limit, remaining, retry_after, reset_after] = numbers(value)?;
        // Calls under other terms may have gone beyond the present limit.
        let [remaining, reset_after] = [remaining.max(0), reset_after.max(0)];
        let retry_after = if retry_after < 0 { None } else { Some(count(retry_after)?) };
        let [limit, remaining, reset_after] = [count(limit)?, count(remaining)?, count(reset_after)?];
        Ok(Self { limited: limited != 0, limit, remaining, retry_after, reset_after })
    }
}

impl FromRedisValue for Polled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [now, gen_, daemons, schema, extends, paused, assigned] = numbers(value)?;
        let (now, generation, daemons) = (count(now)?, generation(gen_), count(daemons)?);
        let newer_schema = NewerSchema::of(count(schema)?);
        let paused = paused.max(0) as u64;
        let assigned = u64::try_from(assigned).ok();
        Ok(Self { now, generation, daemons, newer_schema, extends: extends == 1, paused, assigned })
    }
}
