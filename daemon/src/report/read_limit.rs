//! The reading of one limit for a report.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    counts::{Count, Counts},
    keyspace::ShardKeys,
    limit::{Limit, LimitName, Mode, OnAbandon, Supply, TopKeys},
    namespace::InNamespace,
    reply::Verdict,
    scripts::{self, PartState, PermitCounts},
};

use super::limit_row::{CandidateRow, DeniedKey, LimitRow, PartRow, TopDenied};

/// Most keys of a shard whose permits are counted.
const MOST_KEYS: usize = 1_000;

/// Reads one limit's row; `None` if it was removed meanwhile. Values that Redis refuses to tell are absent.
pub(super) async fn row(
    mut connection: Connection,
    name: &LimitName,
    now: u64,
) -> RedisResult<Option<LimitRow>> {
    let Some(published) = scripts::read_limit(&mut connection, name).await? else { return Ok(None) };
    let (connection, limit) = (&connection, &published.limit);
    let [mut of_parts, mut of_bucket, mut of_counts, mut of_candidate, mut of_keys] =
        [0; 5].map(|_| connection.clone());
    let (active, permits, open_holds, parts, tokens, top_denied, counts, candidate) = tokio::join!(
        active(connection, limit),
        permits(connection, limit, now),
        open_holds(connection, limit, now),
        parts(&mut of_parts, limit),
        tokens(&mut of_bucket, limit),
        top_denied(&mut of_keys, limit),
        async { scripts::counts(&mut of_counts, &limit.name).await.ok() },
        async {
            match limit.candidate {
                true => scripts::read_limit(&mut of_candidate, &limit.name.candidate()).await.ok().flatten(),
                false => None,
            }
        },
    );
    let per_second = counts.map(|(_, lately)| lately.per_second(now));
    Ok(Some(LimitRow {
        name: limit.name.to_string(),
        // As long as the configs have not been read.
        orphaned: false,
        owners: Vec::new(),
        defined_until: None,
        algorithm: limit.algorithm.as_str(),
        keyed: limit.keyed,
        capacity: limit.terms.capacity.get(),
        rate: rate(limit),
        tokens_per_second: tokens_per_second(limit),
        tokens,
        active: active.or(permits.map(|permits| permits.keys)),
        held: permits.map(|permits| permits.held),
        waiting: permits.map(|permits| permits.waiting),
        open_holds,
        parts,
        mode: limit.rollout.mode.as_str(),
        enforce_percent: limit.rollout.enforced.get(),
        candidate: candidate.map(|candidate| CandidateRow {
            capacity: candidate.limit.terms.capacity.get(),
            rate: rate(&candidate.limit),
        }),
        counts: counts.map(|(counts, _)| named(&counts)),
        allowed_per_second: per_second.map(|[allowed, _]| allowed),
        denied_per_second: per_second.map(|[_, denied]| denied),
        top_denied,
        on_trial: limit.has_trial(),
    }))
}

/// The answers to `ask` of all shards; `None` if one is missing.
async fn of_shards<T, F: Future<Output = RedisResult<T>>>(
    connection: &Connection,
    limit: &Limit,
    ask: impl Fn(Connection, ShardKeys) -> F,
) -> Option<Vec<T>> {
    let keys = |shard| ShardKeys::new(connection.namespace(), &limit.name, shard);
    let shards = (0..limit.shards.get()).map(|shard| ask(connection.clone(), keys(shard)));
    try_join_all(shards).await.ok()
}

/// The number of counting buckets.
async fn active(connection: &Connection, limit: &Limit) -> Option<u64> {
    if limit.algorithm.is_script_only() {
        return None;
    }
    let count = |mut connection, keys| async move { scripts::count_active(&mut connection, &keys).await };
    Some(of_shards(connection, limit, count).await?.into_iter().sum())
}

/// The permits of all keys; `None` for limits of tokens.
async fn permits(connection: &Connection, limit: &Limit, now: u64) -> Option<PermitCounts> {
    if !limit.algorithm.has_permits() {
        return None;
    }
    let count = |mut connection, keys| async move {
        scripts::count_permits(&mut connection, &keys, now, MOST_KEYS).await
    };
    let add = |sum: PermitCounts, one: PermitCounts| PermitCounts {
        keys: sum.keys + one.keys,
        held: sum.held + one.held,
        waiting: sum.waiting + one.waiting,
    };
    Some(of_shards(connection, limit, count).await?.into_iter().fold(PermitCounts::default(), add))
}

/// The open holds; `None` where Redis does not know them.
async fn open_holds(connection: &Connection, limit: &Limit, now: u64) -> Option<u64> {
    if limit.holds.on_abandon() != OnAbandon::Refund {
        return None;
    }
    let count = |mut connection, keys| async move { scripts::count_holds(&mut connection, &keys, now).await };
    Some(of_shards(connection, limit, count).await?.into_iter().sum())
}

/// The parts of a limit with fair shares.
async fn parts(connection: &mut Connection, limit: &Limit) -> Option<Vec<PartRow>> {
    if !limit.algorithm.has_parts() {
        return None;
    }
    let keys = ShardKeys::new(connection.namespace(), &limit.name, 0);
    let states = scripts::part_states(connection, &keys).await.ok()?;
    let known = limit.parts.under(limit.terms.capacity, limit.terms.supply.pace()).unwrap_or_default();
    let row = |state: PartState| {
        let known = known.iter().find(|part| part.name == state.name);
        let (weight, tokens_per_second) =
            known.map_or((0, 0.0), |part| (part.weight, part.tokens_per_second()));
        let PartState { name: part, capacity, tokens, loan: lent } = state;
        PartRow { part, weight, capacity, tokens_per_second, tokens, lent }
    };
    Some(states.into_iter().map(row).collect())
}

/// The tokens in the bucket of an unkeyed limit.
async fn tokens(connection: &mut Connection, limit: &Limit) -> Option<u64> {
    if limit.keyed || limit.rollout.mode == Mode::Off {
        return None;
    }
    let (keys, peek) = (ShardKeys::new(connection.namespace(), &limit.name, 0), Operation::Peek(1));
    let settled = scripts::settle(connection, limit.algorithm, &keys, "", peek, false, None).await.ok()?;
    (settled.verdict != Verdict::Unknown).then_some(settled.tokens)
}

/// The most denied keys of a limit that tells them.
async fn top_denied(connection: &mut Connection, limit: &Limit) -> Option<TopDenied> {
    if limit.top_keys == TopKeys::NONE {
        return None;
    }
    let denied = scripts::most_denied(connection, &limit.name, limit.top_keys).await.ok()?;
    let keys = denied.keys.into_iter().map(|(key, denied)| DeniedKey { key, denied }).collect();
    Some(TopDenied { hashed: limit.top_keys.is_hashed(), keys, missing: denied.missing })
}

fn rate(limit: &Limit) -> Option<String> {
    match limit.terms.supply {
        Supply::Rate(rate) => Some(rate.to_string()),
        Supply::Windows(windows) => Some(windows.to_string()),
        Supply::Permits(ttl) => Some(format!("ttl {ttl}")),
        Supply::Period(_) => None,
    }
}

fn tokens_per_second(limit: &Limit) -> Option<f64> {
    let (tokens, micros) = limit.terms.supply.lowest_terms();
    (tokens > 0).then(|| tokens as f64 * 1e6 / micros as f64)
}

fn named(counts: &Counts) -> BTreeMap<&'static str, u64> {
    Count::ALL.into_iter().map(|count| (count.as_str(), counts.get(count))).collect()
}
