//! The reply to a control poll.

use redis::{FromRedisValue, ParsingError, Value};

use super::numbers::{count, generation, numbers};
use crate::schema::NewerSchema;

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

// === impl Polled ===

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
