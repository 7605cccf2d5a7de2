//! Removal and migration of all states of a limit on a node. Only a scan finds them.

use std::collections::BTreeMap;

use redis::RedisResult;

use super::{
    scan::scan,
    settle::settle,
    sweep::{sweep_keys, sweep_scripted},
};
use crate::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, LimitName},
    namespace::InNamespace,
};

/// Removes the states of the limit `name` under `algorithm` on `node`, of the shards from `first` on.
///
/// There is no index of states, so a scan of the keyspace finds them. They stay where the record is of `algorithm`.
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
            let keys = ShardKeys::new(namespace, name, shard);
            if algorithm.is_script_only() {
                sweep_scripted(connection, &keys, algorithm, &states).await?;
                continue;
            }
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
            settle(connection, algorithm, &keys, member, Operation::Refund(0), false, None).await?;
        }
    }
    Ok(())
}
