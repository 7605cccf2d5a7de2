//! The number of permits of a shard.

use redis::{Cmd, RedisResult, aio::ConnectionLike};

use crate::keyspace::ShardKeys;

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
