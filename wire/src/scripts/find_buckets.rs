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

/// What a scan found that no worker may come back for: members by shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Counters of no published limit, or in no index, and keys that are no strings. [`sweep_keys`](super::sweep_keys)
    /// checks each again.
    pub counters: BTreeMap<(LimitName, u16), Vec<String>>,
    /// Fixed windows whose keys do not expire: a worker has died before it said when, or is about to. A
    /// [`settle`](super::settle) does.
    pub windows: BTreeMap<(LimitName, u16), Vec<String>>,
}

/// One step of a scan of `node` for strays, given the `published` limits. Looks at about `most` keys. Returns the cursor of
/// the next step, too.
///
/// # Errors
/// Errors of Redis.
pub async fn find_strays(
    node: &mut impl InNamespace,
    published: &BTreeMap<LimitName, Shards>,
    from: u64,
    most: usize,
) -> RedisResult<(Strays, Option<u64>)> {
    let namespace = node.namespace();
    let (found, next) = scan_for(node, &namespace.counters_pattern(), from, most).await?;
    let under =
        |algorithm| found.iter().filter_map(move |key| Some((key, namespace.bucket_of(algorithm, key)?)));
    let mut windows: Vec<_> = under(Algorithm::FixedWindow).collect();
    let asked = windows.iter().fold(redis::pipe(), |mut asked, (key, _)| {
        asked.pttl(*key);
        asked
    });
    let mut seen = all_of::<i64>(node, &asked).await?.into_iter();
    windows.retain(|_| seen.next() == Some(-1));
    let buckets = under(Algorithm::TokenBucket);
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
    Ok((Strays { counters: by_shard(strays), windows: by_shard(windows) }, next))
}

fn by_shard(found: Vec<(&String, (LimitName, u16, &str))>) -> BTreeMap<(LimitName, u16), Vec<String>> {
    let mut by_shard: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (_, (name, shard, member)) in found {
        by_shard.entry((name, shard)).or_default().push(member.to_owned());
    }
    by_shard
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
