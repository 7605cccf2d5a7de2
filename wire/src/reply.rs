//! What the scripts answer.

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

use crate::{
    bucket::{Operation, Pace},
    limit::{Capacity, Limit},
};

/// What a script made of a request.
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

/// The reply of `settle.lua` and of each algorithm's script, all numbers of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What came of it.
    pub verdict: Verdict,
    /// Tokens in the bucket after it.
    pub tokens: u64,
    /// The most it holds.
    pub capacity: u64,
    /// µs until a denied take would be allowed; when none is left, until the next token; of a reservation that was
    /// allowed, until its turn. 0 otherwise.
    pub wait: u64,
    /// µs for which the bucket stays below full if nothing more is taken, so that a bare `DECR` is right.
    pub headroom: u64,
    /// The instant Redis decided, in µs of its `TIME`.
    pub now: u64,
    /// Tokens taken.
    pub granted: u64,
    /// Whether the bucket is counting after it, so that bare takes are possible.
    pub counting: bool,
}

/// The reply of `settle.lua` where tokens are put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutInReply {
    /// They are in.
    Done(Settled),
    /// The bucket counts no more, and others may have tokens of it in hand: to be asked again after `wait`.
    Again(Settled),
}

/// A limit as its record says, and what else workers need of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedLimit {
    /// The limit.
    pub limit: Limit,
    /// Counts the changes of its capacity and rate: buckets at rest say under which they were written.
    pub terms: u64,
    /// Whether a change is announced: until it is made, workers use scripts only.
    pub frozen: bool,
    /// The instant, in µs of Redis `TIME`, before which an absent bucket is not full: no first takes until then. 0 but
    /// after a capacity was raised.
    pub absent_full_at: u64,
}

/// The reply of `CL.THROTTLE`, and of `throttle.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throttled {
    /// Whether the call is over the limit; then it has not counted.
    pub limited: bool,
    /// The most at once: `max_burst` + 1.
    pub limit: u64,
    /// How much more could be had now.
    pub remaining: u64,
    /// Seconds until the same call would be allowed, rounded down; `None` when it was, or never would be.
    pub retry_after: Option<u64>,
    /// Seconds until all of `limit` could be had, rounded down.
    pub reset_after: u64,
}

/// The reply of `refill.lua`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refilled {
    /// Buckets credited.
    pub credited: u64,
    /// Those of them that are full and lost their keys.
    pub full: u64,
    /// Tokens given; 2^53 when more.
    pub tokens: u64,
    /// The instant of Redis, in µs.
    pub now: u64,
    /// When the next of the buckets there are is due, in µs of Redis `TIME`; `now` when there may be more already.
    pub again: u64,
}

/// The reply of `carry.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Buckets carried over by this call.
    pub carried: u64,
    /// Buckets still to be carried over.
    pub left: u64,
    /// The instant of Redis, in µs.
    pub now: u64,
}

/// What came of publishing one shard of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It said so already.
    Unchanged,
    /// It says so now.
    Changed,
    /// It is new.
    Created,
    /// Buckets of an earlier change are still to be carried over or swept: ask again after.
    Busy,
    /// Workers are to be told that it is frozen at this instant, in µs of Redis `TIME`; then it is to be asked for again.
    Announced(u64),
}

/// The reply of `heartbeat.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The instant of Redis, in µs.
    pub now: u64,
    /// The generation published, `None` when nothing is.
    pub generation: Option<u64>,
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
}

impl Settled {
    /// What `operation` is told of a limit that is off, of which Redis is not asked: the bucket is full, and stays so.
    pub const fn free(capacity: Capacity, operation: Operation) -> Self {
        let (tokens, granted) = (capacity.get(), operation.takes());
        let verdict = Verdict::Allowed;
        Self { verdict, tokens, capacity: tokens, wait: 0, headroom: 0, now: 0, granted, counting: false }
    }

    /// What the one number of a short reply says: a take or a share was granted all of its `count` tokens.
    ///
    /// `now` and `wait` are 0, since the number does not tell them. `tokens` is exact but for those of 3 µs.
    pub fn from_headroom(number: u64, capacity: Capacity, pace: Pace, count: u64) -> Self {
        let (headroom, counting, capacity) = (number / 2, number % 2 == 1, capacity.get());
        // A bucket that has just stopped being full begins to fill up to 2 µs late, and a token falls on a whole µs.
        let late = if pace.n > 1 { 3 } else { 0 };
        let time = u128::from(headroom.saturating_sub(late));
        let missing = (time * u128::from(pace.n)).div_ceil(u128::from(pace.p));
        let tokens = u64::try_from(missing).map_or(0, |missing| capacity.saturating_sub(missing));
        let verdict = Verdict::Allowed;
        Self { verdict, tokens, capacity, wait: 0, headroom, now: 0, granted: count, counting }
    }
}

/// `N` whole numbers, as every script of ours answers.
fn numbers<const N: usize>(value: Value) -> Result<[i64; N], ParsingError> {
    exactly(from_redis_value(value)?)
}

fn exactly<const N: usize>(numbers: Vec<i64>) -> Result<[i64; N], ParsingError> {
    let given = numbers.len();
    numbers.try_into().map_err(|_| ParsingError::from(format!("{N} numbers expected, {given} given")))
}

/// A count, which is never negative.
fn count(number: i64) -> Result<u64, ParsingError> {
    u64::try_from(number).map_err(|_| ParsingError::from(format!("{number} is not a count")))
}

/// A generation, where -1 says that there is none.
fn generation(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

// === impl FromRedisValue ===

impl Settled {
    /// What the numbers of a reply say.
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
        // What has been lent beyond the limit, under other terms, is none.
        let [remaining, reset_after] = [remaining.max(0), reset_after.max(0)];
        let retry_after = if retry_after < 0 { None } else { Some(count(retry_after)?) };
        let [limit, remaining, reset_after] = [count(limit)?, count(remaining)?, count(reset_after)?];
        Ok(Self { limited: limited != 0, limit, remaining, retry_after, reset_after })
    }
}

impl FromRedisValue for Refilled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [credited, full, tokens, now, again] = numbers(value)?;
        let [credited, full, tokens] = [count(credited)?, count(full)?, count(tokens)?];
        Ok(Self { credited, full, tokens, now: count(now)?, again: count(again)? })
    }
}

impl FromRedisValue for Carried {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [carried, left, now] = numbers(value)?;
        Ok(Self { carried: count(carried)?, left: count(left)?, now: count(now)? })
    }
}

impl FromRedisValue for Published {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [outcome, now] = numbers(value)?;
        match outcome {
            0 => Ok(Self::Unchanged),
            1 => Ok(Self::Changed),
            2 => Ok(Self::Created),
            3 => Ok(Self::Busy),
            4 => Ok(Self::Announced(count(now)?)),
            other => Err(ParsingError::from(format!("{other} is no outcome of publishing"))),
        }
    }
}

impl FromRedisValue for Beat {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [now, gen_] = numbers(value)?;
        Ok(Self { now: count(now)?, generation: generation(gen_) })
    }
}

impl FromRedisValue for Polled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [now, gen_, daemons] = numbers(value)?;
        Ok(Self { now: count(now)?, generation: generation(gen_), daemons: count(daemons)? })
    }
}
