//! Replies to calls for holds.

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

use crate::reply::Settled;

/// The outcome of a call for a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldOutcome {
    /// It is done.
    Done,
    /// An earlier call has done it.
    DoneBefore,
    /// The bucket has ended counting. The same call does it after `wait`.
    Again,
    /// Nothing was done: no such limit is published, or it is of another algorithm.
    Unknown,
}

/// The reply to a call for a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldReply {
    /// The outcome.
    pub outcome: HoldOutcome,
    /// Tokens used that were not charged, since the bucket would have been in deeper debt than it may.
    pub uncharged: u64,
    /// The bucket after it.
    pub settled: Settled,
}

/// An open hold whose time to live is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueHold {
    /// Its ID.
    pub id: String,
    /// Tokens taken.
    pub tokens: u64,
    /// The bucket in its shard.
    pub member: String,
}

/// Open holds whose time to live is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueHolds {
    /// The instant of Redis, in µs.
    pub now: u64,
    /// The instant at which the next hold is over; `None` if no other is open.
    pub next: Option<u64>,
    /// The holds. Entries that are no holds are left out.
    pub holds: Vec<DueHold>,
}

// === impl DueHold ===

impl DueHold {
    fn parse(entry: &str) -> Option<Self> {
        let (id, rest) = entry.split_once(':')?;
        let (tokens, member) = rest.split_once(':')?;
        Some(Self { id: id.to_owned(), tokens: tokens.parse().ok()?, member: member.to_owned() })
    }
}

// === impl FromRedisValue ===

impl FromRedisValue for HoldReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let numbers: Vec<i64> = from_redis_value(value)?;
        let [outcome, uncharged, settled @ ..] = &numbers[..] else {
            return Err(ParsingError::from("no reply to a hold"));
        };
        let outcome = match outcome {
            0 => HoldOutcome::Done,
            1 => HoldOutcome::DoneBefore,
            2 => HoldOutcome::Again,
            3 => HoldOutcome::Unknown,
            other => return Err(ParsingError::from(format!("{other} is no outcome of a hold"))),
        };
        let settled = Settled::try_from(settled.to_vec())?;
        Ok(Self { outcome, uncharged: (*uncharged).max(0) as u64, settled })
    }
}

impl FromRedisValue for DueHolds {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let rows: Vec<Value> = from_redis_value(value)?;
        let mut rows = rows.into_iter();
        let mut number = || from_redis_value::<u64>(rows.next().unwrap_or(Value::Nil));
        let (now, next) = (number()?, number()?);
        let entries = rows.map(from_redis_value::<String>);
        let holds = entries.filter_map(|entry| DueHold::parse(&entry.ok()?)).collect();
        Ok(Self { now, next: (next > 0).then_some(next), holds })
    }
}
