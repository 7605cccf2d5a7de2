//! Putting tokens into a bucket: refunds, resets, and what was taken ahead of its takers.

use std::time::Duration;

use redis::{RedisResult, aio::ConnectionLike};

use super::operate;
use crate::{bucket::Operation, keyspace::ShardKeys, limit::Algorithm, reply::Settled};

/// What is put into a bucket, and what its worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutIn {
    /// Tokens; `None` fills the bucket.
    pub tokens: Option<u64>,
    /// When the bucket is full, in µs of Redis `TIME`, if nobody else has taken since: then tokens go in at once.
    pub full_at: Option<u64>,
    /// Whether tokens are lost where somebody else has taken since.
    pub or_lost: bool,
    /// The longest that any worker has tokens of the bucket in hand: see [`Limit::in_hand_for`](crate::limit::Limit).
    pub in_hand_for: Duration,
}

/// Puts tokens into a bucket.
///
/// A counting bucket of which others may have tokens in hand ends counting first, and the tokens follow once all that is
/// spent or gone: after [`PutIn::in_hand_for`].
///
/// # Errors
/// Those of Redis. The tokens may have been put in all the same.
pub async fn put_in(
    connection: &mut impl ConnectionLike,
    algorithm: Algorithm,
    keys: &ShardKeys,
    member: &str,
    request: PutIn,
) -> RedisResult<Settled> {
    let operation = request.tokens.map_or(Operation::Reset, Operation::Refund);
    operate(connection, algorithm, keys, member, operation, false, 0).await
}
