//! Counts of the takes of limits.

use std::{collections::HashMap, sync::LazyLock};

use redis::{Cmd, RedisError, RedisResult, Script};

use crate::{
    connection::Cause,
    constants::with_constants,
    counts::{Count, Counts, Lately},
    keyspace::ShardKeys,
    least_rights::{is_not_permitted, script},
    limit::LimitName,
    namespace::InNamespace,
    scripts::is_cross_slot,
};

static COUNT: LazyLock<Script> = LazyLock::new(|| script(&with_constants(include_str!("count.lua"))));

/// Adds to the counts of limits that are still published, in one step. On a cluster, all of them must be in one hash slot.
///
/// # Errors
/// Errors of Redis. Unless [`is_uncounted`] says otherwise, the counts may have been added all the same.
pub async fn count(connection: &mut impl InNamespace, more: &[(LimitName, Counts)]) -> RedisResult<u64> {
    let mut call = COUNT.prepare_invoke();
    let namespace = connection.namespace();
    for (name, more) in more {
        call.key(ShardKeys::new(namespace, name, 0).record).key(namespace.counts_of(name));
        let fields = || Count::ALL.into_iter().filter(|count| more.get(*count) > 0);
        call.arg(fields().count());
        for count in fields() {
            call.arg(count.as_str()).arg(more.get(count));
        }
    }
    call.invoke_async(connection).await
}

/// Whether `error` says that [`count`] added nothing.
pub fn is_uncounted(error: &RedisError) -> bool {
    match Cause::of(error) {
        Cause::Refused
        | Cause::Password
        | Cause::Loading
        | Cause::Replica
        | Cause::Cluster
        | Cause::Clients => true,
        // Redis refuses the first command of a script that writes, or none.
        Cause::Memory | Cause::Disk | Cause::Replicas => true,
        Cause::Rights => is_not_permitted(error),
        _ => is_cross_slot(error),
    }
}

/// The counts of the limit `name` since it last changed, and its takes of the last seconds.
///
/// # Errors
/// Errors of Redis.
pub async fn counts(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<(Counts, Lately)> {
    let fields: HashMap<String, String> =
        Cmd::hgetall(connection.namespace().counts_of(name)).query_async(connection).await?;
    let field = |name: &str| fields.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut counts = Counts::default();
    for count in Count::ALL {
        counts.set(count, field(count.as_str()));
    }
    let lately = Lately {
        window: field("window"),
        in_window: ["window_allowed", "window_denied"].map(field),
        before: ["before_allowed", "before_denied"].map(field),
    };
    Ok((counts, lately))
}

/// Removes the counts of the limit `name`, and those of its most denied keys.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn clear_counts(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<()> {
    let namespace = connection.namespace();
    let keys = [vec![namespace.counts_of(name)], namespace.top_slices(name).into()].concat();
    Cmd::unlink(keys).query_async(connection).await
}
