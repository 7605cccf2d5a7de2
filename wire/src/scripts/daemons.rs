//! Heartbeats of daemons, and control polls of workers.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use crate::{
    keyspace::{DAEMONS, GENERATION, daemon_details},
    reply::{Beat, Polled},
};

static HEARTBEAT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("heartbeat.lua")));
static POLL: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("poll.lua")));

/// The state of a daemon, as it reports itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Time from the last tick to its pass.
    pub lag: Duration,
    /// Buckets credited since the daemon started.
    pub credited: u64,
    /// The version of the daemon.
    pub version: String,
}

/// A daemon that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonStatus {
    /// Its id.
    pub id: String,
    /// Its state.
    pub health: Health,
}

/// Reports that the daemon `id` is alive, for the time `good_for`.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn heartbeat(
    connection: &mut impl ConnectionLike,
    id: &str,
    good_for: Duration,
    health: &Health,
) -> RedisResult<Beat> {
    let mut call = HEARTBEAT.prepare_invoke();
    call.key(DAEMONS).key(GENERATION).key(daemon_details(id)).arg(id).arg(good_for.as_micros() as u64);
    call.arg("lag").arg(health.lag.as_micros() as u64).arg("credited").arg(health.credited);
    call.arg("version").arg(&health.version).invoke_async(connection).await
}

/// Withdraws the heartbeat of the daemon `id`.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn retire(connection: &mut impl ConnectionLike, id: &str) -> RedisResult<()> {
    redis::pipe().zrem(DAEMONS, id).ignore().unlink(daemon_details(id)).ignore().exec_async(connection).await
}

/// Whether a daemon is alive, and the generation published.
///
/// # Errors
/// Errors of Redis.
pub async fn poll(connection: &mut impl ConnectionLike) -> RedisResult<Polled> {
    POLL.key(DAEMONS).key(GENERATION).invoke_async(connection).await
}

/// The daemons alive.
///
/// # Errors
/// Errors of Redis.
pub async fn daemons(connection: &mut impl ConnectionLike) -> RedisResult<Vec<DaemonStatus>> {
    let now = poll(connection).await?.now;
    let ids: Vec<String> = Cmd::zrangebyscore(DAEMONS, now, "+inf").query_async(connection).await?;
    let mut alive = Vec::with_capacity(ids.len());
    for id in ids {
        let details: HashMap<String, String> =
            Cmd::hgetall(daemon_details(&id)).query_async(connection).await?;
        let number = |field: &str| details.get(field).and_then(|value| value.parse().ok()).unwrap_or(0);
        let health = Health {
            lag: Duration::from_micros(number("lag")),
            credited: number("credited"),
            version: details.get("version").cloned().unwrap_or_default(),
        };
        alive.push(DaemonStatus { id, health });
    }
    Ok(alive)
}

/// The server's `maxmemory-policy` if that may evict keys; `None` if not, or if the server does not tell.
///
/// # Errors
/// Errors of Redis; some hosted servers refuse the command.
pub async fn eviction_policy(connection: &mut impl ConnectionLike) -> RedisResult<Option<String>> {
    let mut ask = Cmd::new();
    // CONFIG GET would need the right to read passwords.
    let info: String = ask.arg("INFO").arg("memory").query_async(connection).await?;
    let policy = info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"));
    Ok(policy.filter(|policy| *policy != "noeviction").map(str::to_owned))
}
