//! First takes: native takes of a full bucket.
//!
//! A full bucket has no key. `SET key VALUE PX ms NX` takes from it and writes a bucket at rest, which expires when the
//! bucket is full again. The command changes nothing where there is a key. Such a bucket must be settled.

use redis::{Cmd, ErrorKind, RedisError, RedisResult, aio::ConnectionLike};

use super::at_rest::{number_at_rest, number_expires_at};
use crate::{
    bucket::Pace,
    constants::TAGS,
    pipeline::{Expiry, RedisCommand},
};

/// The most tokens of a first take. Scripts multiply their number by a span of the rate.
const MOST_FIRST: u64 = 1 << 32;
/// The longest time to live of a first take, in ms: 69 years.
const LONGEST_FIRST_MS: u64 = 1 << 41;

/// Whether [`first_take`] may take `count` tokens of a full bucket of `capacity`.
pub fn can_take_first(capacity: u64, pace: Pace, count: u64) -> bool {
    (1..=capacity.min(MOST_FIRST)).contains(&count) && pace.first_take_ms(count) <= LONGEST_FIRST_MS
}

/// Takes `count` tokens of the bucket at `state` if it has no key, and so is full. Returns whether it had none.
///
/// `terms_id` is the field `terms` of the record. Right only under the conditions of [`can_take_first`], and for a
/// token bucket with a rate and catch-up that is not frozen.
///
/// # Errors
/// Errors of Redis. The command may have been carried out all the same.
pub async fn first_take(
    connection: &mut impl ConnectionLike,
    state: &str,
    terms_id: u64,
    pace: Pace,
    count: u64,
) -> RedisResult<bool> {
    let mut set = Cmd::new();
    set.arg("SET").arg(state).arg(value(terms_id, count)).arg("PX").arg(pace.first_take_ms(count)).arg("NX");
    let answer: Option<String> = set.query_async(connection).await?;
    Ok(answer.is_some())
}

/// Appends the command of [`first_take`]. Its reply is [`Done`](crate::pipeline::Reply::Done) or
/// [`Nothing`](crate::pipeline::Reply::Nothing).
///
/// `full_at` is the instant, in µs of Redis `TIME`, at which the bucket is full after the take. It must not be early by more
/// than [`early_at_rest`](super::early_at_rest). With it, the bucket is written as a number, which is right only where it
/// [`rests_as_number`](super::rests_as_number). With 0, the expiry tells the instant of the take.
pub fn encode_first_take(
    out: &mut Vec<u8>,
    state: &str,
    terms_id: u64,
    pace: Pace,
    count: u64,
    full_at: u64,
) {
    let key = state.as_bytes();
    if full_at == 0 {
        let (value, ms) = (value(terms_id, count), pace.first_take_ms(count));
        RedisCommand::SetIfAbsent { key, value: value.as_bytes(), expiry: Expiry::After(ms) }.encode(out);
    } else {
        let (value, at) = (number_at_rest(terms_id, full_at).to_string(), number_expires_at(pace, full_at));
        RedisCommand::SetIfAbsent { key, value: value.as_bytes(), expiry: Expiry::At(at) }.encode(out);
    }
}

/// Whether `error` says that a bare command met a bucket at rest. Nothing was done, and the bucket must be settled.
pub fn is_not_a_counter(error: &RedisError) -> bool {
    let extension = error.kind() == ErrorKind::Extension || matches!(error.kind(), ErrorKind::Server(_));
    extension && error.to_string().contains("not an integer")
}

/// The value that a first take writes.
fn value(terms_id: u64, count: u64) -> String {
    format!("f{:04}{count}", terms_id % TAGS)
}
