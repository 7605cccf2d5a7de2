//! Replies of the scripts of daemons.

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

use super::numbers::{count, generation, numbers};
use crate::{claims::Fingerprint, schema::NewerSchema};

/// The reply of `refill.lua`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refilled {
    /// Buckets credited.
    pub credited: u64,
    /// Credited buckets that are full and lost their keys.
    pub full: u64,
    /// Tokens given; 2^53 when more.
    pub tokens: u64,
    /// The instant of Redis, in µs.
    pub now: u64,
    /// The instant at which the next bucket is due, in µs of Redis `TIME`; `now` if more may be due.
    pub again: u64,
}

/// The reply of `migrate.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Buckets migrated by this call.
    pub migrated: u64,
    /// Buckets still to be migrated.
    pub left: u64,
    /// The instant of Redis, in µs.
    pub now: u64,
}

/// The reply of `publish.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishReply {
    /// The record was the same already.
    Unchanged,
    /// The record has changed.
    Changed,
    /// The record is new.
    Created,
    /// Nothing was done. Buckets of an earlier change are to be migrated or swept first.
    Busy,
    /// The record is frozen since this instant, in µs of Redis `TIME`. Tell the workers, then publish again.
    Announced(u64),
    /// Nothing was done. An earlier change of plans takes force first, after so many µs. Publish again then.
    TooEarly(u64),
}

/// The reply of `heartbeat.lua`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The instant of Redis, in µs.
    pub now: u64,
    /// The generation published, `None` when nothing is.
    pub generation: Option<u64>,
    /// The schema in Redis, if this version does not know it. Nothing was written then.
    pub newer_schema: Option<NewerSchema>,
    /// A hash of the live daemons and of all claims. It changes when either does.
    pub roster: String,
    /// The hash of the config that Redis has of this daemon; `None` if it has none.
    pub declared: Option<Fingerprint>,
}

// === impl FromRedisValue ===

impl FromRedisValue for Refilled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [credited, full, tokens, now, again] = numbers(value)?;
        let [credited, full, tokens] = [count(credited)?, count(full)?, count(tokens)?];
        Ok(Self { credited, full, tokens, now: count(now)?, again: count(again)? })
    }
}

impl FromRedisValue for Migrated {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [migrated, left, now] = numbers(value)?;
        Ok(Self { migrated: count(migrated)?, left: count(left)?, now: count(now)? })
    }
}

impl FromRedisValue for PublishReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let [outcome, now] = numbers(value)?;
        match outcome {
            0 => Ok(Self::Unchanged),
            1 => Ok(Self::Changed),
            2 => Ok(Self::Created),
            3 => Ok(Self::Busy),
            4 => Ok(Self::Announced(count(now)?)),
            5 => Ok(Self::TooEarly(count(now)?)),
            other => Err(ParsingError::from(format!("{other} is no outcome of publishing"))),
        }
    }
}

impl FromRedisValue for Beat {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (now, gen_, schema, roster, declared): (i64, i64, i64, String, String) = from_redis_value(value)?;
        let newer_schema = NewerSchema::of(count(schema)?);
        let declared = declared.parse().ok();
        Ok(Self { now: count(now)?, generation: generation(gen_), newer_schema, roster, declared })
    }
}
