//! The reply to an operation on permits.

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

/// The state of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitState {
    /// It has neither a place nor a turn.
    Absent,
    /// It holds its places.
    Held,
    /// It waits for them.
    Waiting,
    /// It asks for more permits than the limit has.
    ExceedsLimit,
}

/// The reply to an operation on permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permits {
    /// The instant of the decision, in µs of Redis `TIME`.
    pub now: u64,
    /// The time for which a renewal holds, in µs; 0 if no such limit is published.
    pub ttl: u64,
    /// The most permits of a key.
    pub limit: u64,
    /// Permits of the first key that are held.
    pub held: u64,
    /// Waiters of the first key.
    pub waiting: u64,
    /// µs until the lease of the first key's first holder ends, if it is not renewed.
    pub wait: u64,
    /// The state of each id; before the call, if it released.
    pub states: Vec<PermitState>,
    /// The ids that ceased to wait, and hold.
    pub granted: Vec<String>,
}

// === impl Permits ===

impl FromRedisValue for Permits {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        type Numbers = (i64, i64, i64, i64, i64, i64, Vec<i64>, Vec<String>);
        let (now, ttl, limit, held, waiting, wait, states, granted): Numbers = from_redis_value(value)?;
        let count = |number: i64| {
            u64::try_from(number).map_err(|_| ParsingError::from(format!("{number} is not a count")))
        };
        let state = |state: i64| match state {
            0 => Ok(PermitState::Absent),
            1 => Ok(PermitState::Held),
            2 => Ok(PermitState::Waiting),
            -2 => Ok(PermitState::ExceedsLimit),
            other => Err(ParsingError::from(format!("{other} is no state of a permit"))),
        };
        Ok(Self {
            now: count(now)?,
            ttl: count(ttl)?,
            limit: count(limit)?,
            held: count(held)?,
            waiting: count(waiting)?,
            wait: count(wait.max(0))?,
            states: states.into_iter().map(state).collect::<Result<_, _>>()?,
            granted,
        })
    }
}
