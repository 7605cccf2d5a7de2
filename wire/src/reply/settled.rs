//! Replies to operations on a bucket.

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

use super::numbers::{count, exactly, numbers};
use crate::{
    bucket::{Operation, Pace},
    constants::FIRST_TAKE_LATE,
    limit::{Algorithm, Capacity},
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

// === impl Settled ===

impl Settled {
    /// The reply to `operation` under a limit that is off: the bucket is full, and stays so. Redis is not asked.
    pub const fn free(capacity: Capacity, operation: Operation) -> Self {
        let (tokens, granted) = (capacity.get(), operation.takes());
        let verdict = Verdict::Allowed;
        Self { verdict, tokens, capacity: tokens, wait: 0, headroom: 0, now: 0, granted, counting: false }
    }

    /// Reads a reply of one number: a take or a share was granted all of its `count` tokens. The number is the headroom under
    /// [`TokenBucket`](Algorithm::TokenBucket) and [`Gcra`](Algorithm::Gcra), and else the tokens left.
    ///
    /// `now` and `wait` are 0, since the number does not tell them. Of a headroom, `tokens` is exact up to the tokens of 3 µs.
    pub fn from_number(
        number: u64,
        algorithm: Algorithm,
        capacity: Capacity,
        pace: Pace,
        count: u64,
    ) -> Self {
        if !matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra) {
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

impl TryFrom<Vec<i64>> for Settled {
    type Error = ParsingError;

    fn try_from(numbers: Vec<i64>) -> Result<Self, ParsingError> {
        Self::read(exactly(numbers)?)
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
