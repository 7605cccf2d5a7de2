//! Holds: tokens that are taken at an estimate, and settled once at what was used.

use std::{sync::LazyLock, time::Duration};

use redis::{
    FromRedisValue, ParsingError, RedisResult, Script, ScriptInvocation, Value, aio::ConnectionLike,
    from_redis_value,
};

use super::script;
use crate::{keyspace::ShardKeys, limit::Algorithm, reply::Settled};

static HOLD: LazyLock<Script> = script!(
    "schedule.lua" "rest.lua" "token_bucket.lua" "state.lua" "lazy.lua" "lazy_token_bucket.lua" "leaky_bucket.lua"
    "windows.lua" "fixed_window.lua" "sliding_window.lua" "sliding_counter.lua" "fair_shares.lua" "hold.lua"
);
static DUE_HOLDS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("due_holds.lua")));

/// A hold, and the bucket whose tokens it has.
#[derive(Clone, Copy, Debug)]
pub struct HoldOf<'a> {
    /// The algorithm of its limit.
    pub algorithm: Algorithm,
    /// The keys of its shard.
    pub keys: &'a ShardKeys,
    /// The bucket in it.
    pub member: &'a str,
    /// Its ID, without a colon. No two holds of a shard have the same.
    pub id: &'a str,
    /// Tokens taken, or to take.
    pub tokens: u64,
    /// Whether Redis remembers it.
    pub is_remembered: bool,
}

/// The tokens used of a hold, and the bounds of its settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Tokens used.
    pub used: u64,
    /// The most debt after a charge of more than the hold has.
    pub max_debt: u64,
    /// The longest time for which a worker has tokens in hand, see [`Limit::in_hand_for`](crate::limit::Limit).
    pub in_hand_for: Duration,
}

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

/// Takes the tokens of `hold`, all or nothing, and remembers it for `ttl`.
///
/// # Errors
/// Errors of Redis. The tokens may have been taken all the same; then they are put back at their time.
pub async fn reserve_hold(
    connection: &mut impl ConnectionLike,
    hold: HoldOf<'_>,
    ttl: Duration,
) -> RedisResult<HoldReply> {
    invocation("reserve", hold, [micros(ttl), 0, 0]).invoke_async(connection).await
}

/// Remembers `hold` for `ttl`. Its tokens were taken by another call.
///
/// # Errors
/// Errors of Redis. May be sent again without harm within `ttl`.
pub async fn remember_hold(
    connection: &mut impl ConnectionLike,
    hold: HoldOf<'_>,
    ttl: Duration,
) -> RedisResult<HoldReply> {
    invocation("remember", hold, [micros(ttl), 0, 0]).invoke_async(connection).await
}

/// Settles `hold`: puts back what was not used, or charges what was used beyond it.
///
/// # Errors
/// Errors of Redis. May be sent again without harm for 60 s.
pub async fn settle_hold(
    connection: &mut impl ConnectionLike,
    hold: HoldOf<'_>,
    used: Use,
) -> RedisResult<HoldReply> {
    let Use { used, max_debt, in_hand_for } = used;
    invocation("settle", hold, [used, max_debt, micros(in_hand_for)]).invoke_async(connection).await
}

/// Puts the tokens of a remembered `hold` back.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn abandon_hold(
    connection: &mut impl ConnectionLike,
    hold: HoldOf<'_>,
    in_hand_for: Duration,
) -> RedisResult<HoldReply> {
    invocation("abandon", hold, [0, 0, micros(in_hand_for)]).invoke_async(connection).await
}

/// Up to `most` open holds of a shard whose time to live is over.
///
/// # Errors
/// Errors of Redis.
pub async fn due_holds(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    most: usize,
) -> RedisResult<DueHolds> {
    DUE_HOLDS.key(keys.holds()).arg(most).invoke_async(connection).await
}

/// A call of `hold.lua`. What its last three `numbers` are depends on the operation.
fn invocation(operation: &str, hold: HoldOf<'_>, numbers: [u64; 3]) -> ScriptInvocation<'static> {
    let HoldOf { algorithm, keys, member, id, tokens, is_remembered } = hold;
    let mut call = HOLD.prepare_invoke();
    let state = keys.stored(algorithm, member);
    match algorithm {
        Algorithm::TokenBucket => call.key(state).key(&keys.record).key(&keys.due).key(&keys.previous),
        Algorithm::Gcra => call.key(state).key(&keys.record),
        _ => call.key(&keys.record).key(state),
    };
    call.key(keys.holds()).key(keys.settled(id)).arg(algorithm.as_str()).arg(operation);
    let entry = if is_remembered { format!("{id}:{tokens}:{member}") } else { String::new() };
    call.arg(entry).arg(tokens);
    for number in numbers {
        call.arg(number);
    }
    if algorithm.has_parts() {
        call.arg(member);
    }
    call
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
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
