//! Healing: what a shard holds, and the mending of what should not be there.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::{
    Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, Script, Value, aio::ConnectionLike,
};

use super::{
    call_on_members,
    record::{fields, parse, text_fields},
    script,
};
use crate::{
    constants::{BAND_WIDTH, LAST_BAND_OFFSET},
    keyspace::ShardKeys,
    limit::{Limit, LimitName},
    namespace::InNamespace,
};

static MEND: LazyLock<Script> = script!("packed_state.lua" "mend.lua");
static CLEAN: LazyLock<Script> = script!("rest.lua" "clean.lua");
static MEND_SHARED: LazyLock<Script> =
    LazyLock::new(|| Script::new(&crate::constants::with_constants(include_str!("mend_shared.lua"))));

/// Most fields of a hash that may be a record.
const MOST_FIELDS: i64 = 64;
/// Most entries of one kind in a due index that one look tells. One call cleans three kinds at most.
const MOST_ENTRIES: isize = 500;
/// A score so many µs ahead of the caller's clock is ahead of the server's.
const CLOCK_SLACK: u64 = 2_000_000;

/// The fields of a record, as bytes: packed terms are no text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(BTreeMap<Vec<u8>, Vec<u8>>);

/// The state of a shard at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLook {
    /// The record; `None` if there is none, or a key that is no record.
    pub record: Option<Record>,
    /// Whether the due index and the previous index are sorted sets, or absent.
    pub has_sound_indexes: bool,
    /// Members of the due index that are to be [cleaned](clean), some of many.
    pub odd_members: Vec<Vec<u8>>,
}

/// The outcome of [`mend`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mended {
    /// The shard was as it should be.
    Sound(Record),
    /// It is again, and this differed.
    Repaired(Record, String),
    /// Another daemon has published the record since it was looked at. Nothing was done.
    Outdated,
}

/// The outcome of [`mend_shared`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedMended {
    /// Daemons alive.
    pub daemons: u64,
    /// The generation, if that was repaired.
    pub generation: Option<u64>,
    /// Each thing that was repaired.
    pub repaired: Vec<String>,
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

/// Mends the record of a shard, and the types of its indexes. `seen` is the record as last looked at, `verified` as last
/// found right. Buckets and due index stay.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn mend(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    limit: &Limit,
    seen: Option<&Record>,
    verified: Option<&Record>,
) -> RedisResult<Mended> {
    let own = fields(limit);
    let mut call = MEND.prepare_invoke();
    call.key(&keys.record).key(&keys.due).key(&keys.previous);
    call.arg(seen.and_then(|seen| seen.0.get(b"generation".as_slice())).map_or(&[][..], Vec::as_slice));
    for (field, value) in &own {
        call.arg(*field).arg(value);
    }
    for (field, value) in verified.into_iter().flat_map(|verified| &verified.0) {
        if !own.iter().any(|(name, _)| name.as_bytes() == field) {
            call.arg(field).arg(value);
        }
    }
    let mut reply: Vec<Value> = call.invoke_async(connection).await?;
    let record = reply.split_off(reply.len().min(2));
    let [outcome, what] =
        <[Value; 2]>::try_from(reply).map_err(|_| RedisError::from((ErrorKind::Parse, "mend")))?;
    let record = Record(FromRedisValue::from_redis_value(Value::Array(record))?);
    Ok(match i64::from_redis_value(outcome)? {
        0 => Mended::Sound(record),
        1 => Mended::Repaired(
            record,
            String::from_utf8_lossy(&Vec::<u8>::from_redis_value(what)?).into_owned(),
        ),
        _ => Mended::Outdated,
    })
}

/// Cleans these members of a shard's due index. Returns the number of entries cleaned.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn clean(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    keyed: bool,
    members: &[Vec<u8>],
) -> RedisResult<u64> {
    let mut call = call_on_members(&CLEAN, &[&keys.record, &keys.due], keys, members);
    call.arg(u8::from(keyed)).invoke_async(connection).await
}

/// Mends the keys that all limits share. `id` is the caller's daemon, `generation` the one it knows.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn mend_shared(
    connection: &mut impl InNamespace,
    id: &str,
    generation: u64,
) -> RedisResult<SharedMended> {
    let (mut call, namespace) = (MEND_SHARED.prepare_invoke(), connection.namespace());
    call.key(namespace.limits()).key(namespace.generation()).key(namespace.daemons());
    call.key(namespace.daemon_details(id)).key(namespace.defined()).key(namespace.ends());
    call.key(namespace.changes()).arg(generation);
    let mut reply = call.invoke_async::<Vec<Value>>(connection).await?.into_iter();
    let daemons = u64::from_redis_value(reply.next().unwrap_or(Value::Nil))?;
    let generation =
        Some(u64::from_redis_value(reply.next().unwrap_or(Value::Nil))?).filter(|mended| *mended > 0);
    let repaired =
        reply.map(|what| Ok(String::from_utf8_lossy(&Vec::<u8>::from_redis_value(what)?).into_owned()));
    Ok(SharedMended { daemons, generation, repaired: repaired.collect::<RedisResult<_>>()? })
}

/// Whether `error` says that a key holds what no topup has written.
pub fn is_corruption(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse || error.to_string().contains("WRONGTYPE")
}

// === impl Record ===

impl Record {
    /// The limit that the record tells.
    ///
    /// # Errors
    /// If the record is not of this version.
    pub fn limit(&self, name: &LimitName) -> Result<Limit, String> {
        parse(name, &text_fields(self.0.clone()))
    }

    /// Counts its changes; 0 if it does not tell.
    pub fn generation(&self) -> u64 {
        let text = self.0.get(b"generation".as_slice()).and_then(|text| str::from_utf8(text).ok());
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Whether the terms are not packed, so that a settle costs twice as much.
    pub fn is_unpacked(&self) -> bool {
        self.0.get(b"packed".as_slice()).is_some_and(Vec::is_empty)
    }

    /// Whether a change of terms is announced in it.
    pub fn is_frozen(&self) -> bool {
        self.0.get(b"frozen".as_slice()).is_some_and(|since| since != b"0")
    }
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
