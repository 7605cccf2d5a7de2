//! Healing: a look at what a shard holds, also at what topup has not written.

use std::collections::BTreeMap;

use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, Value, aio::ConnectionLike};

use super::raw_record::Record;
use crate::{
    constants::{BAND_WIDTH, LAST_BAND_OFFSET},
    keyspace::ShardKeys,
    limit::Limit,
};

/// Most fields of a hash that may be a record.
const MOST_FIELDS: i64 = 64;
/// Most entries of one kind in a due index that one look tells. One call cleans three kinds at most.
const MOST_ENTRIES: isize = 500;
/// A score so many µs ahead of the caller's clock is ahead of the server's.
const CLOCK_SLACK: u64 = 2_000_000;

/// The state of a shard at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLook {
    /// The record; `None` if there is none, or a key that is no record.
    pub record: Option<Record>,
    /// Whether the due index and the previous index are sorted sets, or absent.
    pub has_sound_indexes: bool,
    /// Members of the due index that are to be [cleaned](super::clean), some of many.
    pub odd_members: Vec<Vec<u8>>,
}

/// Looks at one shard of a limit. With `has_due_index`, also at the ends of its due index; `now` is the caller's idea of
/// Redis `TIME` in µs.
///
/// # Errors
/// Errors of Redis. A key of a wrong type is none.
pub async fn look_at_shard(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    limit: &Limit,
    now: u64,
) -> RedisResult<ShardLook> {
    let mut asked = redis::pipe();
    asked.cmd("HLEN").arg(&keys.record).cmd("TYPE").arg(&keys.due).cmd("TYPE").arg(&keys.previous);
    if !limit.algorithm.is_script_only() {
        let ahead = format!("({}", now.saturating_add(CLOCK_SLACK));
        for (from, to) in [
            ("-inf".to_owned(), format!("(-{LAST_BAND_OFFSET}")),
            (LAST_BAND_OFFSET.to_string(), "+inf".to_owned()),
            (ahead, format!("({BAND_WIDTH}")),
        ] {
            asked.add_command(Cmd::zrangebyscore_limit(&keys.due, from, to, 0, MOST_ENTRIES));
        }
        // The index of an unkeyed limit has one entry at most.
        asked.zrange(&keys.due, 0, if limit.keyed { 0 } else { 1 });
    }
    let mut answers = each_answer(connection, &asked).await?.into_iter();
    let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
    let fields: i64 = whole(next())?.unwrap_or(-1);
    let mut has_sound_indexes = true;
    for _ in 0..2 {
        let kind = String::from_redis_value(next()?)?;
        has_sound_indexes &= kind == "zset" || kind == "none";
    }
    let mut odd_members: Vec<Vec<u8>> = Vec::new();
    while let Some(answer) = answers.next() {
        let is_head = answers.len() == 0;
        odd_members.extend(
            listed(answer)?.into_iter().filter(|member| !is_head || limit.keyed == member.is_empty()),
        );
    }
    let record = if (1..=MOST_FIELDS).contains(&fields) {
        match Cmd::hgetall(&keys.record).query_async::<BTreeMap<Vec<u8>, Vec<u8>>>(connection).await {
            Ok(fields) if fields.is_empty() => None,
            Ok(fields) => Some(Record(fields)),
            Err(error) if is_corruption(&error) => None,
            Err(error) => return Err(error),
        }
    } else {
        None
    };
    Ok(ShardLook { record, has_sound_indexes, odd_members })
}

/// Whether `error` says that a key holds what no topup has written.
pub fn is_corruption(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse || error.to_string().contains("WRONGTYPE")
}

/// Each answer by itself: one of a wrong type spoils no other.
async fn each_answer(
    connection: &mut impl ConnectionLike,
    asked: &Pipeline,
) -> RedisResult<Vec<RedisResult<Value>>> {
    let answers = connection.req_packed_commands(asked, 0, asked.len()).await?;
    Ok(answers.into_iter().map(Value::extract_error).collect())
}

/// A number; `None` of a key of a wrong type.
fn whole(answer: RedisResult<Value>) -> RedisResult<Option<i64>> {
    match answer {
        Ok(value) => Ok(Some(i64::from_redis_value(value)?)),
        Err(error) if is_corruption(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A list; empty of a key of a wrong type.
fn listed(answer: RedisResult<Value>) -> RedisResult<Vec<Vec<u8>>> {
    match answer {
        Ok(value) => Ok(FromRedisValue::from_redis_value(value)?),
        Err(error) if is_corruption(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
