//! Claims limits in Redis, and ends the claims to removed ones.

use redis::{ErrorKind, RedisError, RedisResult};
use topup_wire::{claims::Ownership, connection::Connection, scripts, scripts::ClaimChange};

use super::ownership::{LoadedConfig, Plan, decide};

/// Attempts to change claims while others change them, too.
const ATTEMPTS: usize = 20;

/// Decides on the limits of `config` by the present claims, and changes nothing. Returns whether publishing is due: the
/// claims are to change, or Redis has lost a limit.
///
/// # Errors
/// Errors of Redis.
pub async fn review(connection: &Connection, config: &LoadedConfig) -> RedisResult<(Plan, bool)> {
    let conn = &mut connection.clone();
    let seen = scripts::ownership(conn).await?;
    let plan = decide(config, &seen);
    // A Redis without a generation is flushed or new. The next heartbeat leads to a publication of everything.
    let is_flushed = scripts::generation(conn).await?.is_none();
    let is_lost = !plan.publish.is_subset(&seen.registered);
    let is_due = plan.change != ClaimChange::default() || !plan.remove.is_empty() || is_lost;
    Ok((plan, is_due && !is_flushed))
}

/// Claims the limits of `config` that no other config holds. Ends its other claims, but those to limits that are to be
/// [removed](Plan::remove).
///
/// # Errors
/// Errors of Redis. May be called again without harm.
pub async fn claim(connection: &Connection, config: &LoadedConfig) -> RedisResult<Plan> {
    let seen = scripts::ownership(&mut connection.clone()).await?;
    let plan = decide(config, &seen);
    if plan.change == ClaimChange::default() {
        return Ok(plan);
    }
    change_claims(connection, |seen| {
        let plan = decide(config, seen);
        (plan.change.clone(), plan)
    })
    .await
}

/// Ends the claims of `config` to limits that have been removed. Other daemons then look whether one of them is theirs:
/// a config may have claimed it meanwhile.
///
/// # Errors
/// Errors of Redis. May be called again without harm.
pub async fn release(connection: &Connection, config: &LoadedConfig, removed: &Plan) -> RedisResult<()> {
    change_claims(connection, |seen| {
        let gone = decide(config, seen).remove.into_iter().filter(|name| removed.remove.contains(name));
        let release = gone.map(|name| (name, config.owner.clone())).collect();
        (ClaimChange { release, ..ClaimChange::default() }, ())
    })
    .await
}

/// Makes the change of claims that `decide` finds, unless another is made meanwhile: then it decides again. Returns the
/// decision.
pub(super) async fn change_claims<T>(
    connection: &Connection,
    decide: impl Fn(&Ownership) -> (ClaimChange, T),
) -> RedisResult<T> {
    let conn = &mut connection.clone();
    for _ in 0..ATTEMPTS {
        let seen = scripts::ownership(conn).await?;
        let (change, decision) = decide(&seen);
        if scripts::claim(conn, &seen.version, &change).await? {
            return Ok(decision);
        }
    }
    Err(RedisError::from((ErrorKind::Client, "the claims to limits change all the time")))
}
