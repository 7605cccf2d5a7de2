//! Trial metrics of limits.

use std::{collections::HashMap, sync::LazyLock};

use redis::{Cmd, RedisResult, Script};

use crate::{
    counts::{Count, Counts},
    keyspace::ShardKeys,
    least_rights::script,
    limit::LimitName,
    namespace::InNamespace,
};

static COUNT: LazyLock<Script> = LazyLock::new(|| script(include_str!("count.lua")));

/// Adds `more` to the trial metrics of the limit `name`, if it is still published.
///
/// # Errors
/// Errors of Redis. The counts may have been added all the same.
pub async fn count(connection: &mut impl InNamespace, name: &LimitName, more: &Counts) -> RedisResult<()> {
    let mut call = COUNT.prepare_invoke();
    let namespace = connection.namespace();
    call.key(ShardKeys::new(namespace, name, 0).record).key(namespace.counts_of(name));
    for count in Count::ALL.into_iter().filter(|count| more.get(*count) > 0) {
        call.arg(count.as_str()).arg(more.get(count));
    }
    call.invoke_async(connection).await
}

/// The trial metrics of the limit `name` since it last changed.
///
/// # Errors
/// Errors of Redis.
pub async fn counts(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<Counts> {
    let fields: HashMap<String, u64> =
        Cmd::hgetall(connection.namespace().counts_of(name)).query_async(connection).await?;
    let mut counts = Counts::default();
    for count in Count::ALL {
        counts.set(count, fields.get(count.as_str()).copied().unwrap_or(0));
    }
    Ok(counts)
}

/// Removes the trial metrics of the limit `name`.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn clear_counts(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<()> {
    Cmd::unlink(connection.namespace().counts_of(name)).query_async(connection).await
}
