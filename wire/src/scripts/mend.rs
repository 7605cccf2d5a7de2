//! Healing: the mending of what should not be in a shard, or in the keys that all limits share.

use std::sync::LazyLock;

use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Script, Value, aio::ConnectionLike};

use super::{call_on_members, raw_record::Record, record::fields, script};
use crate::{keyspace::ShardKeys, limit::Limit, namespace::InNamespace};

static MEND: LazyLock<Script> = script!("packed_state.lua" "mend.lua");
static CLEAN: LazyLock<Script> = script!("rest.lua" "clean.lua");
static MEND_SHARED: LazyLock<Script> =
    LazyLock::new(|| Script::new(&crate::constants::with_constants(include_str!("mend_shared.lua"))));

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
