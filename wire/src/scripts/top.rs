//! The most denied keys of a limit: what workers told of the last minutes.

use std::{collections::HashMap, sync::LazyLock};

use redis::{Cmd, Pipeline, RedisResult, Script};

use crate::{
    constants::with_constants, keyspace::ShardKeys, least_rights::script, limit::LimitName, limit::TopKeys,
    namespace::InNamespace,
};

static TOP: LazyLock<Script> = LazyLock::new(|| script(&with_constants(include_str!("top.lua"))));

/// A slice keeps so many times as many keys as are told.
const KEPT: usize = 4;

/// Denied takes by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeniedKeys {
    /// Keys and their denied takes; the most denied key comes first where Redis tells.
    pub keys: Vec<(String, u64)>,
    /// The most denied takes that a key may have had beyond those told.
    pub missing: u64,
}

/// Adds denied takes of a limit to those of the minute. Does nothing if the limit is not published. Where the limit tells
/// hashes, no key is sent as it is.
///
/// # Errors
/// Errors of Redis. The takes may have been added all the same, unless [`is_uncounted`](super::is_uncounted) says
/// otherwise.
pub async fn add_denied(
    connection: &mut impl InNamespace,
    name: &LimitName,
    told: TopKeys,
    denied: &DeniedKeys,
) -> RedisResult<()> {
    let namespace = connection.namespace();
    let mut call = TOP.prepare_invoke();
    call.key(ShardKeys::new(namespace, name, 0).record);
    for slice in namespace.top_slices(name) {
        call.key(slice);
    }
    call.arg(KEPT * told.get()).arg(denied.missing);
    for (key, takes) in &denied.keys {
        call.arg(told.told(key)).arg(*takes);
    }
    call.invoke_async::<u8>(connection).await.map(drop)
}

/// The keys of a limit that were denied most in the last minutes, as the limit tells them: hashes may stand for them.
///
/// # Errors
/// Errors of Redis.
pub async fn most_denied(
    connection: &mut impl InNamespace,
    name: &LimitName,
    told: TopKeys,
) -> RedisResult<DeniedKeys> {
    let mut pipe = Pipeline::new();
    for slice in connection.namespace().top_slices(name) {
        pipe.add_command(Cmd::zrange_withscores(slice, 0, -1));
    }
    let slices: Vec<Vec<(Vec<u8>, f64)>> = pipe.query_async(connection).await?;
    let (mut missing, mut hidden) = (0, vec![0; slices.len()]);
    let mut sums: HashMap<String, u64> = HashMap::new();
    let numbered = slices.into_iter().enumerate();
    for (slice, (member, score)) in
        numbered.flat_map(|(slice, all)| all.into_iter().map(move |one| (slice, one)))
    {
        // Scores are whole numbers. A cast makes some number of junk.
        let score = score as u64;
        match String::from_utf8(member) {
            Ok(key) if key.is_empty() => missing += score,
            // Told before the limit told hashes, or by an older worker. Any key may have had them.
            Ok(key) if !told.shows(&key) => hidden[slice] = hidden[slice].max(score),
            Ok(key) => {
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(score);
            }
            Err(_) => {}
        }
    }
    let mut keys: Vec<_> = sums.into_iter().collect();
    keys.sort_unstable_by(|(key, one), (other_key, other)| other.cmp(one).then_with(|| key.cmp(other_key)));
    keys.truncate(told.get());
    Ok(DeniedKeys { keys, missing: missing + hidden.into_iter().sum::<u64>() })
}
