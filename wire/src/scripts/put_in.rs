//! Put-ins: refunds, resets, and the return of prefetched tokens.

use std::time::Duration;

use redis::{RedisResult, aio::ConnectionLike};

use super::settle::{invocation, settle};
use crate::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::Algorithm,
    reply::{PutInReply, Settled},
};

/// A put-in, and the worker's knowledge of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutIn {
    /// Tokens of a caller; `None` fills the bucket.
    pub tokens: Option<u64>,
    /// Tokens that no caller got, beside those of the caller. They are lost if a caller has put tokens in after `unused_since`.
    pub unused: u64,
    /// The unused tokens were taken after this instant, in µs of Redis `TIME`.
    pub unused_since: u64,
    /// Further tokens that no caller got. They go in if no other worker has taken since, and are lost otherwise.
    pub spare: u64,
    /// The instant, in µs of Redis `TIME`, at which the bucket is full if no other worker has taken since. Tokens go in
    /// at once if it is right to 5 µs. For rates up to 100,000/s.
    pub full_at: Option<u64>,
    /// The longest time for which a worker has tokens in hand, see [`Limit::in_hand_for`](crate::limit::Limit).
    pub in_hand_for: Duration,
}

/// Puts tokens into a bucket.
///
/// A counting bucket of which other workers may have tokens in hand ends counting first. The tokens follow after
/// [`PutIn::in_hand_for`], when those in hand are spent or gone.
///
/// # Errors
/// Errors of Redis. The tokens may have been put in all the same.
pub async fn put_in(
    connection: &mut impl ConnectionLike,
    algorithm: Algorithm,
    keys: &ShardKeys,
    member: &str,
    request: PutIn,
) -> RedisResult<Settled> {
    loop {
        match try_put_in(connection, algorithm, keys, member, request).await? {
            PutInReply::Done(settled) => return Ok(settled),
            PutInReply::Again(settled) => tokio::time::sleep(Duration::from_micros(settled.wait)).await,
        }
    }
}

/// One step of [`put_in`].
///
/// # Errors
/// Errors of Redis. The tokens may have been put in all the same.
pub async fn try_put_in(
    connection: &mut impl ConnectionLike,
    algorithm: Algorithm,
    keys: &ShardKeys,
    member: &str,
    request: PutIn,
) -> RedisResult<PutInReply> {
    let PutIn { tokens, unused, unused_since, spare, full_at, in_hand_for } = request;
    if !matches!(algorithm, Algorithm::TokenBucket | Algorithm::Gcra) {
        let operation =
            tokens.map_or(Operation::Reset, |tokens| Operation::Refund(tokens.saturating_add(unused)));
        return settle(connection, algorithm, keys, member, operation, false, None)
            .await
            .map(PutInReply::Done);
    }
    let word = if tokens.is_some() { "put-in" } else { "fill" };
    let mut call = invocation(algorithm, keys, member);
    call.arg(word).arg(tokens.unwrap_or(0)).arg(0).arg(full_at.unwrap_or(0));
    call.arg(in_hand_for.as_micros() as u64).arg(spare).arg(unused).arg(unused_since);
    call.invoke_async(connection).await
}
