//! Removal of a limit by hand.

use redis::RedisResult;
use topup_wire::{
    claims::{Definition, Owner, Ownership},
    connection::Connection,
    limit::{LimitName, Shards},
    publishing::remove,
    scripts,
    scripts::ClaimChange,
};

use super::claim::change_claims;

/// The result of a removal by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The limit is gone, with all its buckets. These configs held it.
    Removed(Vec<Owner>),
    /// The same of a limit that code had defined. The program may define it again.
    Undefined(Definition),
    /// The limit stays, since a live daemon has it in its config. The claims of these configs without one have ended.
    Released {
        /// The live daemon.
        daemon: String,
        /// The configs.
        from: Vec<Owner>,
    },
    /// Nothing was done: a live daemon has the limit in its config, and no other config holds it.
    InUse {
        /// The live daemon.
        daemon: String,
        /// Its config.
        owner: Owner,
    },
    /// No such limit is published or claimed.
    Unknown,
}

/// Removes the limit `name`. With `force`, even if a live daemon has it.
///
/// # Errors
/// Errors of Redis. May be called again: a second call removes what is left.
pub async fn remove_by_hand(connection: &Connection, name: &LimitName, force: bool) -> RedisResult<Removal> {
    let removal = change_claims(connection, |seen| {
        let removal = decide(name, seen, force);
        let from = match &removal {
            Removal::Removed(from) | Removal::Released { from, .. } => from.clone(),
            Removal::Undefined(_) | Removal::InUse { .. } | Removal::Unknown => Vec::new(),
        };
        let release = from.into_iter().map(|owner| (*name, owner)).collect();
        (ClaimChange { release, ..ClaimChange::default() }, removal)
    })
    .await?;
    if let Removal::Removed(_) | Removal::Undefined(_) = removal {
        let conn = &mut connection.clone();
        let registered = scripts::published_limits(conn).await?;
        let plans = registered.keys().filter(|limit| limit.as_plan().is_some() && limit.live() == *name);
        for limit in [name.candidate(), name.lazy()].into_iter().chain(plans.copied()).chain([*name]) {
            remove(connection, &limit, registered.get(&limit).copied().unwrap_or(Shards::ONE)).await?;
        }
        // Workers drop the limit. Live daemons look whether it was theirs.
        scripts::announce(conn).await?;
        change_claims(connection, |_| (ClaimChange::default(), ())).await?;
    }
    Ok(removal)
}

fn decide(name: &LimitName, seen: &Ownership, force: bool) -> Removal {
    let holders: Vec<Owner> = seen.claims_to(name).into_keys().collect();
    let mut having = seen.daemons.iter().filter(|(_, declared)| declared.limits.contains_key(name));
    if let Some(definition) = seen.defined.get(name).filter(|_| holders.is_empty()) {
        return Removal::Undefined(definition.clone());
    }
    match having.next() {
        _ if holders.is_empty() && !seen.registered.contains(name) => Removal::Unknown,
        None => Removal::Removed(holders),
        Some(_) if force => Removal::Removed(holders),
        Some((daemon, declared)) => {
            let daemon = daemon.clone();
            let from: Vec<Owner> = holders.into_iter().filter(|owner| !seen.is_alive(owner)).collect();
            match from.is_empty() {
                true => Removal::InUse { daemon, owner: declared.owner.clone() },
                false => Removal::Released { daemon, from },
            }
        }
    }
}
