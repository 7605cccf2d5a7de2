//! Permits: places of a limit with algorithm `concurrency`.

use std::sync::LazyLock;

use redis::{
    Cmd, FromRedisValue, ParsingError, RedisResult, Script, Value, aio::ConnectionLike, from_redis_value,
};

use crate::{
    bucket::Operation,
    constants::with_constants,
    keyspace::ShardKeys,
    least_rights::script,
    reply::{Settled, Verdict},
};

static PERMITS: LazyLock<Script> = LazyLock::new(|| script(&with_constants(include_str!("permits.lua"))));

/// An operation on permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitOperation {
    /// Take a place for each id, or a turn among the waiters if `waits`. An id that has either keeps it.
    Acquire {
        /// Whether the id waits if no place is free.
        waits: bool,
    },
    /// Prolong the leases of holders and waiters.
    Renew,
    /// Give places and turns back.
    Release,
}

/// Ids of one key. An id ends in a hyphen and its number of permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPermits {
    /// The key; empty for an unkeyed limit.
    pub member: String,
    /// The ids.
    pub ids: Vec<String>,
}

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

/// Carries `operation` out on permits of a shard, in one step and exactly.
///
/// # Errors
/// Errors of Redis. May be sent again without harm: an id that was granted keeps its place.
pub async fn permits(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    operation: PermitOperation,
    permits: &[KeyPermits],
) -> RedisResult<Permits> {
    let mut call = PERMITS.key(&keys.record);
    call.key(keys.permits());
    for one in permits {
        for key in keys.permits_of(&one.member) {
            call.key(key);
        }
    }
    let (word, waits) = match operation {
        PermitOperation::Acquire { waits } => ("acquire", waits),
        PermitOperation::Renew => ("renew", false),
        PermitOperation::Release => ("release", false),
    };
    call.arg(word).arg(u8::from(waits));
    for one in permits {
        call.arg(one.ids.len()).arg(&one.ids[..]);
    }
    call.invoke_async(connection).await
}

/// Held and waiting permits of the key `member`; changes nothing.
///
/// # Errors
/// Errors of Redis.
pub async fn peek_permits(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    member: &str,
) -> RedisResult<Permits> {
    let mut call = PERMITS.key(&keys.record);
    call.key(keys.permits());
    for key in keys.permits_of(member) {
        call.key(key);
    }
    call.arg("peek").arg(0).arg(0).invoke_async(connection).await
}

/// The permits of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermitCounts {
    /// Keys with holders or waiters.
    pub keys: u64,
    /// Permits that are held.
    pub held: u64,
    /// Waiters.
    pub waiting: u64,
}

/// Counts the permits of a shard: those of at most `most` keys, and all keys.
///
/// # Errors
/// Errors of Redis.
pub async fn count_permits(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    now: u64,
    most: usize,
) -> RedisResult<PermitCounts> {
    let (index, from) = (keys.permits(), format!("({now}"));
    let list = Cmd::zrangebyscore_limit(&index, &from, "+inf", 0, most as isize);
    let members: Vec<Vec<u8>> = list.query_async(connection).await?;
    if members.is_empty() {
        return Ok(PermitCounts::default());
    }
    let mut pipe = redis::pipe();
    pipe.zcount(&index, &from, "+inf");
    for member in members.iter().filter_map(|member| std::str::from_utf8(member).ok()) {
        let [holders, _, leases] = keys.permits_of(member);
        pipe.zcount(holders, &from, "+inf").zcount(leases, &from, "+inf");
    }
    let counts: Vec<u64> = pipe.query_async(connection).await?;
    let Some((keys, counts)) = counts.split_first() else { return Ok(PermitCounts::default()) };
    let (pairs, _) = counts.as_chunks::<2>();
    let sum = |one: usize| pairs.iter().map(|pair| pair[one]).sum();
    Ok(PermitCounts { keys: *keys, held: sum(0), waiting: sum(1) })
}

/// A peek as tokens: those in the bucket are the free places.
pub(super) async fn peek_as_tokens(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    member: &str,
    operation: Operation,
) -> RedisResult<Settled> {
    let Operation::Peek(count) = operation else {
        return Err(ParsingError::from("permits are acquired and released, never taken").into());
    };
    let Permits { now, ttl, limit, held, wait, .. } = peek_permits(connection, keys, member).await?;
    let tokens = limit.saturating_sub(held);
    let verdict = match () {
        () if ttl == 0 => Verdict::Unknown,
        () if count > limit => Verdict::ExceedsCapacity,
        () if count > tokens => Verdict::Denied,
        () => Verdict::Allowed,
    };
    Ok(Settled { verdict, tokens, capacity: limit, wait, headroom: 0, now, granted: 0, counting: false })
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
