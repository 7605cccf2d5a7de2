//! Permits: places of a limit with algorithm `concurrency`.

use std::sync::LazyLock;

use redis::{ParsingError, RedisResult, Script, aio::ConnectionLike};

use super::permit_reply::Permits;
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
