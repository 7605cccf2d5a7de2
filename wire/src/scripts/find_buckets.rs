//! Scans of a node for buckets: those at rest of a limit, and strays.

use std::collections::BTreeMap;

use redis::{FromRedisValue, Pipeline, RedisResult, aio::ConnectionLike};

use super::{
    at_rest::is_at_rest,
    scan::{scan, scan_for},
};
use crate::{
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName, Shards},
    namespace::InNamespace,
};

/// One step of a scan of `node` for strays: counters of no `published` limit, or in no index, and keys that are no
/// strings.
///
/// Looks at about `most` keys. Returns members by shard, and the cursor of the next step. [`sweep_keys`](super::sweep_keys) checks each
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
