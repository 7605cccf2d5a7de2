//! Limits that have a source no longer: what it has brought is taken back.

use std::time::Duration;

use redis::RedisResult;
use tokio::time::sleep;
use topup_wire::{assigned_keys::AssignedKeys, connection::Connection, limit::LimitName, scripts};

use crate::{config::Config, publish::fingerprint};

/// The time between two looks while something is left to do.
const PAUSE: Duration = Duration::from_secs(1);
/// For so long after a source has ended, in µs, its terms are kept: tokens of its keys still move by them.
const KEPT: u64 = 86_400_000_000;

/// Takes back the assignments of sources that limits of `config` no longer have.
pub(super) async fn withdraw(connection: &Connection, id: &str, config: &Config) {
    // Without an answer, it is tried again.
    while !matches!(withdraw_all(&mut connection.clone(), id, config).await, Ok(true)) {
        sleep(PAUSE).await;
    }
}

/// Returns whether nothing is left to do.
async fn withdraw_all(connection: &mut Connection, id: &str, config: &Config) -> RedisResult<bool> {
    if scripts::newer_schema(connection).await?.is_some() {
        return Ok(false);
    }
    let index = scripts::assignment_index(connection).await?;
    let has_none = |name: &LimitName| {
        let limit = config.limits.get(&name.live());
        *name == name.live().source() && limit.is_some_and(|limit| limit.source.is_none())
    };
    let former: Vec<LimitName> =
        index.shapes.keys().filter(|name| has_none(name)).map(LimitName::live).collect();
    if former.is_empty() {
        return Ok(true);
    }
    let seen = scripts::ownership(connection).await?;
    let mut is_done = true;
    for name in former {
        let declared = seen.daemons.get(id).and_then(|declared| declared.limits.get(&name));
        let limit = config.limits.get(&name);
        let is_held = declared.zip(limit).is_some_and(|(declared, limit)| {
            declared.held && declared.fingerprint == fingerprint(limit, config.tick)
        });
        is_done &= is_held && withdraw_of(connection, id, &name).await?;
    }
    Ok(is_done)
}

/// Takes back what the source of the limit `name` has brought. Returns whether that is done.
async fn withdraw_of(connection: &mut Connection, id: &str, name: &LimitName) -> RedisResult<bool> {
    if !scripts::source_turn(connection, id, name, &[]).await?.is_own {
        return Ok(false);
    }
    let set = name.source();
    let held = scripts::all_assigned(connection, &set).await?;
    if held.keys.is_empty() {
        scripts::remove_idle(connection, &set, scripts::IDLE).await?;
        if held.shape.is_some_and(|shape| held.now.saturating_sub(shape.at) > KEPT) && !held.has_past() {
            scripts::forget_assigned(connection, &set).await?;
        }
        scripts::forget_source(connection, name).await?;
        return Ok(true);
    }
    let taken_back =
        scripts::replace_assigned(connection, &set, &held, &AssignedKeys::default(), |_| {}).await?;
    if taken_back.is_some() {
        tracing::info!(
            "limit {name}: it has a source no longer: the assignments of the last one are taken back"
        );
        sleep(scripts::IDLE).await;
    }
    Ok(false)
}
