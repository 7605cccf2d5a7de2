//! The parts of a limit with fair shares.

use redis::{ParsingError, RedisResult, aio::ConnectionLike};

use super::settle::FAIR_SHARES;
use crate::{keyspace::ShardKeys, limit::Algorithm};

/// A part of a limit with fair shares, at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartState {
    /// Its name: a key or a pattern.
    pub name: String,
    /// The most tokens of its own.
    pub capacity: u64,
    /// Tokens of its own.
    pub tokens: u64,
    /// Tokens that are lent to it.
    pub loan: u64,
}

/// Every part of a limit with fair shares, in the order of its [`Parts`](crate::limit::Parts). Changes nothing. Empty where
/// no such limit is published.
///
/// # Errors
/// Errors of Redis.
pub async fn part_states(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
) -> RedisResult<Vec<PartState>> {
    let mut call = FAIR_SHARES.key(&keys.record);
    call.key(keys.stored(Algorithm::FairShares, ""));
    let (_, names, numbers): (u64, Vec<String>, Vec<u64>) =
        call.arg("peek").arg(0).arg("").arg("parts").invoke_async(connection).await?;
    let (numbers, rest) = numbers.as_chunks::<3>();
    if !rest.is_empty() || numbers.len() != names.len() {
        let problem = format!("{} numbers are not those of {} parts", 3 * numbers.len(), names.len());
        return Err(ParsingError::from(problem).into());
    }
    let part =
        |(name, &[capacity, tokens, loan]): (String, &[u64; 3])| PartState { name, capacity, tokens, loan };
    Ok(names.into_iter().zip(numbers).map(part).collect())
}
