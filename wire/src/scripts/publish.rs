//! Publication of limits, and reading of published ones.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use redis::{Cmd, ParsingError, RedisResult, Script, aio::ConnectionLike};

use super::{
    at_rest::key_at_rest_until,
    record::{fields, parse, text_fields},
    script,
};
use crate::{
    bucket::Pace,
    constants::FREEZE_MICROS,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, LimitName, Past, Plans, Terms},
    namespace::InNamespace,
    reply::{PublishReply, PublishedLimit},
};

/// From the announcement of a change to the change. A worker trusts an estimate for 700 ms.
pub const FREEZE: Duration = Duration::from_micros(FREEZE_MICROS);

static PUBLISH: LazyLock<Script> = script!("packed_state.lua" "publish.lua");
static FREEZE_RECORD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("freeze.lua")));

/// Publishes one shard of `limit`, from the instant `at` on (µs of Redis `TIME`; now, when `None`).
///
/// A change of the capacity or rate of a token bucket is [announced](PublishReply::Announced) first, and made once all
/// workers know. `announced` is the instant of that reply or of a later one.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn publish(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    limit: &Limit,
    at: Option<u64>,
    announced: Option<u64>,
) -> RedisResult<PublishReply> {
    publish_until(connection, keys, limit, at, announced, None).await
}

/// The same for a limit that code has defined, which ends at the instant `expires`, in µs of Redis `TIME`. A record keeps
/// an end that it has. A first one is 1 s ahead at most, until [`expire_record`](super::expire_record) moves it.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn publish_until(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    limit: &Limit,
    at: Option<u64>,
    announced: Option<u64>,
    expires: Option<u64>,
) -> RedisResult<PublishReply> {
    let mut call = PUBLISH.prepare_invoke();
    call.key(&keys.record).key(&keys.due).key(&keys.previous);
    call.arg(at.unwrap_or(0)).arg(announced.unwrap_or(0));
    for (field, value) in fields(limit) {
        call.arg(field).arg(value);
    }
    if let Some(expires) = expires {
        call.arg("expires").arg(expires);
    }
    call.invoke_async(connection).await
}

/// The instant by which every bucket that is kept under earlier terms is full; 0 without any. `fields` are those of a record.
fn earlier_until(fields: &HashMap<String, String>) -> u64 {
    let text = |field: &str| fields.get(field).map_or("", String::as_str);
    // The end, capacity, n and p of each.
    let previous = ["since", "was_capacity", "was_n", "was_p"].map(text).to_vec();
    let rows = text("earlier").split(',').map(|row| row.split(' ').skip(1).take(4).collect());
    let full_at = rows.chain([previous]).filter_map(|row: Vec<&str>| {
        let numbers: Option<Vec<u64>> = row.iter().map(|number| number.parse().ok()).collect();
        let [end, capacity, n, p] = numbers?[..] else { return None };
        Some(key_at_rest_until(Pace { n, p }, capacity, end))
    });
    full_at.max().unwrap_or(0)
}

/// Freezes one shard before a change to `terms`. Returns the latest instant at which the freeze began, in µs of Redis
/// `TIME`; `None` where no freeze is needed.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn freeze(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    terms: &Terms,
) -> RedisResult<Option<u64>> {
    let (n, p) = terms.supply.lowest_terms();
    let mut call = FREEZE_RECORD.key(&keys.record);
    let (frozen, now): (bool, u64) =
        call.arg(terms.capacity.get()).arg(n).arg(p).invoke_async(connection).await?;
    Ok(frozen.then_some(now))
}

/// The limit `name` as published; `None` if it is not.
///
/// # Errors
/// Errors of Redis, and a record this version cannot read.
pub async fn read_limit(
    connection: &mut impl InNamespace,
    name: &LimitName,
) -> RedisResult<Option<PublishedLimit>> {
    let record = ShardKeys::new(connection.namespace(), name, 0).record;
    let fields: HashMap<Vec<u8>, Vec<u8>> = Cmd::hgetall(record).query_async(connection).await?;
    if fields.is_empty() {
        return Ok(None);
    }
    let fields = text_fields(fields);
    let published = parse(name, &fields).map(|limit| {
        // A missing field means: the terms never changed, the record is not frozen, absent buckets are full.
        let number = |field: &str| fields.get(field).and_then(|text| text.parse::<u64>().ok());
        let text_of = |field: &str| fields.get(field).map(String::as_str);
        let pace = limit.terms.supply.pace();
        let missing = number("anchor").map_or(0, |anchor| limit.terms.capacity.get().saturating_sub(anchor));
        let grown = |anchored: u64| if missing == 0 { 0 } else { pace.instant(anchored, missing) };
        PublishedLimit {
            terms_id: number("terms").unwrap_or(1),
            frozen: number("frozen").is_some_and(|since| since > 0),
            absent_full_at: number("anchored").map_or(0, grown),
            earlier_until: earlier_until(&fields),
            plans_at: number("plans_at").unwrap_or(0),
            expires: number("expires"),
            plans_before: text_of("plans_before")
                .and_then(|text| Plans::from_text(text).ok())
                .unwrap_or_default(),
            plans_past: text_of("plans_past").and_then(|text| Past::tables(text).ok()).unwrap_or_default(),
            limit,
        }
    });
    published.map(Some).map_err(|problem| ParsingError::from(problem).into())
}

/// The algorithm of one shard, by its own record. While a limit is being published, the shards may differ.
///
/// # Errors
/// Errors of Redis, and a record this version cannot read.
pub async fn algorithm_of(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
) -> RedisResult<Option<Algorithm>> {
    let word: Option<String> = Cmd::hget(&keys.record, "algorithm").query_async(connection).await?;
    let algorithm = word.map(|word| word.parse::<Algorithm>()).transpose();
    algorithm.map_err(|problem| ParsingError::from(problem.to_string()).into())
}
