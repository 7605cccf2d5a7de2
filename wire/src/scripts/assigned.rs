//! Look-ups of a key's assignment: the filter of keys that may have one, and the hash that has it.

use redis::{Cmd, ParsingError, RedisResult};

use crate::{
    assignments::{KeyFilter, Shape},
    limit::{Assigned, LimitName},
    namespace::InNamespace,
};

/// Bytes of a filter in one reply.
pub(super) const CHUNK: u64 = 1 << 18;

/// The filter of the limit `name`.
///
/// # Errors
/// Errors of Redis.
pub async fn key_filter(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shape: &Shape,
) -> RedisResult<KeyFilter> {
    let key = connection.namespace().assignment_filter(name, shape);
    let mut bytes = Vec::new();
    for first in (0..shape.bits / 8).step_by(CHUNK as usize) {
        let (first, last) = (first as isize, (first + CHUNK - 1) as isize);
        let chunk: Vec<u8> = Cmd::getrange(&key, first, last).query_async(connection).await?;
        let is_last = (chunk.len() as u64) < CHUNK;
        bytes.extend(chunk);
        if is_last {
            break;
        }
    }
    Ok(KeyFilter::new(bytes, shape))
}

/// The assignments of `key` of the limit `name` by hand and by its source, in the arrangements that may have it.
///
/// # Errors
/// Errors of Redis, and a value that this version cannot read.
pub async fn assigned_outside(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shapes: &[Option<Shape>; 2],
    key: &str,
) -> RedisResult<[Option<Assigned>; 2]> {
    let mut found = [None, None];
    for ((set, shape), found) in [*name, name.source()].iter().zip(shapes).zip(&mut found) {
        if let Some(shape) = shape {
            *found = assigned(connection, set, shape, key).await?;
        }
    }
    Ok(found)
}

async fn assigned(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shape: &Shape,
    key: &str,
) -> RedisResult<Option<Assigned>> {
    let hash = connection.namespace().assignment_hash(name, shape, shape.hash_of(key));
    let value: Option<String> = Cmd::hget(hash, key).query_async(connection).await?;
    let parse = |text: String| Assigned::from_text(&text, shape.at).map_err(unreadable);
    Ok(value.map(parse).transpose()?)
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> ParsingError {
    ParsingError::from(error.to_string())
}
