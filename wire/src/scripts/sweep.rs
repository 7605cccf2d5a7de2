//! Removal of keys that a limit no longer needs, in slices.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::{Cmd, FromRedisValue, Pipeline, RedisResult, Script, aio::ConnectionLike};

use super::{at_rest::is_at_rest, call_on_members, settle::settle};
use crate::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName, Shards},
    namespace::InNamespace,
};

static SWEEP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sweep.lua")));

/// Removes the record of a shard, and the indexes of its holds and permits. No script writes to the shard after it.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn drop_record(connection: &mut impl ConnectionLike, keys: &ShardKeys) -> RedisResult<()> {
    Cmd::unlink(&[&keys.record, &keys.holds(), &keys.permits()]).query_async(connection).await
}

/// Removes up to `most` counters of a shard whose record no longer allows any. Returns their number; 0 while the record
/// allows counters.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn sweep_counters(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    most: usize,
) -> RedisResult<usize> {
    for index in [&keys.due, &keys.previous] {
        let list = Cmd::zrange(index, 0, most.saturating_sub(1) as isize);
        let members: Vec<Vec<u8>> = list.query_async(connection).await?;
        if members.is_empty() {
            continue;
        }
        return sweep_keys(connection, keys, &members).await;
    }
    Ok(0)
}

/// Removes the counters or keys at rest of `members`. Returns their number. While the record is of a token bucket, only
/// strays are removed: keys that neither expire nor stand in an index.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn sweep_keys(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    members: &[impl AsRef<[u8]>],
) -> RedisResult<usize> {
    let first = [&*keys.record, &keys.due, &keys.previous];
    call_on_members(&SWEEP, &first, keys, members).invoke_async(connection).await
}

/// Removes the state of one bucket, whose record is gone or of another algorithm.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub(crate) async fn remove_state(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    algorithm: Algorithm,
    member: &str,
) -> RedisResult<()> {
    match algorithm {
        Algorithm::Concurrency => Cmd::unlink(&keys.permits_of(member)).query_async(connection).await,
        Algorithm::TokenBucket => sweep_keys(connection, keys, &[member]).await.map(drop),
        _ => Cmd::unlink(keys.state(algorithm, member)).query_async(connection).await,
    }
}

/// One step of a scan of `node` for strays: counters of no `published` limit, or in no index, and keys that are no
/// strings.
///
/// Looks at about `most` keys. Returns members by shard, and the cursor of the next step. [`sweep_keys`] checks each
/// again.
///
/// # Errors
/// Errors of Redis.
pub async fn find_strays(
    node: &mut impl InNamespace,
    published: &BTreeMap<LimitName, Shards>,
    from: u64,
    most: usize,
) -> RedisResult<(BTreeMap<(LimitName, u16), Vec<String>>, Option<u64>)> {
    let namespace = node.namespace();
    let (found, next) = scan_for(node, &namespace.counters_pattern(), from, most).await?;
    let buckets = found.iter().filter_map(|key| Some((key, namespace.bucket_of(key)?)));
    let (mut own, mut strays): (Vec<_>, Vec<_>) = buckets
        .partition(|(_, (name, shard, _))| published.get(name).is_some_and(|shards| *shard < shards.get()));
    // Most buckets are at rest, and expire.
    let asked = own.iter().fold(redis::pipe(), |mut asked, (key, _)| {
        asked.pttl(*key).key_type(*key);
        asked
    });
    let mut seen = all_of::<String>(node, &asked).await?.into_iter();
    own.retain(|bucket| {
        let (expires, kind) = (seen.next(), seen.next());
        let is_bucket = kind.is_some_and(|kind| kind == "string" || kind == "none");
        if !is_bucket {
            strays.push(*bucket);
        }
        is_bucket && expires.is_some_and(|expires| expires == "-1")
    });
    let asked = own.iter().fold(redis::pipe(), |mut asked, (_, (name, shard, member))| {
        let keys = ShardKeys::new(namespace, name, *shard);
        asked.zscore(keys.due, *member).zscore(keys.previous, *member);
        asked
    });
    let scores: Vec<Option<f64>> = all_of(node, &asked).await?;
    let scored = own.into_iter().zip(scores.chunks(2));
    strays.extend(scored.filter(|(_, scores)| scores.iter().all(Option::is_none)).map(|(key, _)| key));
    let mut by_shard: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (_, (name, shard, member)) in strays {
        by_shard.entry((name, shard)).or_default().push(member.to_owned());
    }
    Ok((by_shard, next))
}

/// One step of a scan of `node` for buckets at rest of the limit `name`. Returns shard and member of each, and the
/// cursor of the next step.
///
/// # Errors
/// Errors of Redis.
pub async fn find_at_rest(
    node: &mut impl InNamespace,
    name: &LimitName,
    from: u64,
) -> RedisResult<(Vec<(u16, String)>, Option<u64>)> {
    let namespace = node.namespace();
    let (found, next) = scan(node, name, from).await?;
    let buckets: Vec<_> = found
        .iter()
        .filter_map(|key| namespace.state_of(name, Algorithm::TokenBucket, key).map(|bucket| (key, bucket)))
        .collect();
    let asked = buckets.iter().fold(redis::pipe(), |mut asked, (key, _)| {
        asked.get(*key);
        asked
    });
    let values: Vec<Option<String>> = all_of(node, &asked).await?;
    // A counter is a whole number, above all numbers at rest.
    let at_rest =
        |value: &Option<String>| value.as_ref().is_some_and(|value| value.parse().map_or(true, is_at_rest));
    let found = buckets.into_iter().zip(values).filter(|(_, value)| at_rest(value));
    Ok((found.map(|((_, (shard, member)), _)| (shard, member.to_owned())).collect(), next))
}

async fn all_of<T: FromRedisValue>(node: &mut impl ConnectionLike, asked: &Pipeline) -> RedisResult<Vec<T>> {
    if asked.is_empty() { Ok(Vec::new()) } else { asked.query_async(node).await }
}

/// Removes the states of the limit `name` under `algorithm` on `node`, of the shards from `first` on.
///
/// There is no index of states, so a scan of the keyspace finds them. States of a token bucket stay where the record is
/// of a token bucket.
///
/// # Errors
/// Errors of Redis. May be called again without harm.
pub async fn sweep_states(
    connection: &mut impl InNamespace,
    node: &mut impl InNamespace,
    name: &LimitName,
    algorithm: Algorithm,
    first: u16,
) -> RedisResult<()> {
    let (namespace, mut cursor) = (node.namespace(), Some(0));
    while let Some(from) = cursor {
        let found: Vec<String>;
        (found, cursor) = scan(node, name, from).await?;
        // All states of a shard are in one hash slot.
        let mut states: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        for key in &found {
            if let Some((shard, _)) =
                namespace.state_of(name, algorithm, key).filter(|(shard, _)| *shard >= first)
            {
                states.entry(shard).or_default().push(key);
            }
        }
        for (shard, states) in states {
            if algorithm.is_script_only() {
                Cmd::unlink(states).exec_async(connection).await?;
                continue;
            }
            let keys = ShardKeys::new(namespace, name, shard);
            let members: Vec<String> = states.iter().map(|state| keys.member(state).to_owned()).collect();
            sweep_keys(connection, &keys, &members).await?;
        }
    }
    Ok(())
}

/// Migrates the states of the limit `name` under `algorithm` on `node` to the present terms, so that each expires by
/// these.
///
/// # Errors
/// Errors of Redis. May be called again without harm.
pub async fn touch_states(
    connection: &mut impl InNamespace,
    node: &mut impl InNamespace,
    name: &LimitName,
    algorithm: Algorithm,
) -> RedisResult<()> {
    if algorithm.has_permits() {
        return Ok(());
    }
    let (namespace, mut cursor) = (node.namespace(), Some(0));
    while let Some(from) = cursor {
        let found: Vec<String>;
        (found, cursor) = scan(node, name, from).await?;
        for (shard, member) in found.iter().filter_map(|key| namespace.state_of(name, algorithm, key)) {
            let keys = ShardKeys::new(namespace, name, shard);
            settle(connection, algorithm, &keys, member, Operation::Refund(0), false, 0).await?;
        }
    }
    Ok(())
}

/// One step of a scan for the states of a limit, and the cursor of the next step. Redis looks at the keys of one step
/// in a fraction of a millisecond.
async fn scan(
    node: &mut impl InNamespace,
    name: &LimitName,
    from: u64,
) -> RedisResult<(Vec<String>, Option<u64>)> {
    scan_for(node, &node.namespace().states_pattern(name), from, 500).await
}

async fn scan_for(
    node: &mut impl InNamespace,
    pattern: &str,
    from: u64,
    most: usize,
) -> RedisResult<(Vec<String>, Option<u64>)> {
    let mut scan = Cmd::new();
    scan.arg("SCAN").arg(from).arg("MATCH").arg(pattern).arg("COUNT").arg(most);
    let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(node).await?;
    // Keys of topup are text.
    let found = found.into_iter().filter_map(|key| String::from_utf8(key).ok());
    Ok((found.collect(), (next > 0).then_some(next)))
}
