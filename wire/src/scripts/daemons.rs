//! Heartbeats of daemons, and control polls of workers.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use redis::{Cmd, RedisResult, Script, aio::ConnectionLike};

use crate::{
    claims::{Declaration, DeclaredLimit, Fingerprint, Owner},
    least_rights::{is_not_permitted, reading_script},
    namespace::InNamespace,
    reply::{Beat, Polled},
    schema::SCHEMA,
};

static HEARTBEAT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("heartbeat.lua")));
static POLL: LazyLock<Script> = LazyLock::new(|| reading_script(include_str!("poll.lua")));

/// The state of a daemon, as it reports itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Time from the last tick to its pass.
    pub lag: Duration,
    /// Buckets credited since the daemon started.
    pub credited: u64,
    /// Corrupt keys repaired since the daemon started.
    pub repaired: u64,
    /// Reloads of the config since the daemon started, applied or refused; 0 for a daemon of an older version.
    pub reloads: u64,
    /// The first problem of the config on disk and the instant since which it is refused, in µs of Redis `TIME`.
    pub refused: Option<(String, u64)>,
    /// The version of the daemon.
    pub version: String,
    /// The name of its config; empty for a daemon of an older version.
    pub owner: Owner,
    /// The hash of its config.
    pub config: Fingerprint,
}

/// A daemon that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonStatus {
    /// Its id.
    pub id: String,
    /// Its state.
    pub health: Health,
    /// The limits of its config; `None` until it has claimed them.
    pub declaration: Option<Declaration>,
}

/// Reports that the daemon `id` is alive, for the time `good_for`. Writes nothing if Redis has a
/// [newer schema](crate::schema).
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn heartbeat(
    connection: &mut impl InNamespace,
    id: &str,
    good_for: Duration,
    health: &Health,
) -> RedisResult<Beat> {
    let (mut call, namespace) = (HEARTBEAT.prepare_invoke(), connection.namespace());
    call.key(namespace.daemons()).key(namespace.generation()).key(namespace.daemon_details(id));
    call.key(namespace.schema()).key(namespace.claims()).key(namespace.owners());
    call.arg(id).arg(good_for.as_micros() as u64).arg(SCHEMA);
    call.arg("owner").arg(health.owner.as_str()).arg("config").arg(health.config.to_string());
    call.arg("lag").arg(health.lag.as_micros() as u64).arg("credited").arg(health.credited);
    let (problem, since) = health.refused.as_ref().map_or(("", 0), |(problem, since)| (problem, *since));
    call.arg("reloads").arg(health.reloads);
    call.arg("repaired").arg(health.repaired).arg("refused").arg(problem).arg("refused_since").arg(since);
    call.arg("version").arg(&health.version).invoke_async(connection).await
}

/// Withdraws the heartbeat of the daemon `id`.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn retire(connection: &mut impl InNamespace, id: &str) -> RedisResult<()> {
    let namespace = connection.namespace();
    let mut pipe = redis::pipe();
    pipe.zrem(namespace.daemons(), id).unlink(namespace.daemon_details(id));
    pipe.exec_async(connection).await
}

/// Whether a daemon is alive, the generation published, its schema, and the version of all pauses.
///
/// # Errors
/// Errors of Redis.
pub async fn poll(connection: &mut impl InNamespace) -> RedisResult<Polled> {
    let namespace = connection.namespace();
    let call = || {
        let mut call = POLL.key(namespace.daemons());
        call.key(namespace.generation()).key(namespace.schema());
        call
    };
    match call().key(namespace.pauses()).key(namespace.assigned()).invoke_async(connection).await {
        // The rights of a user of an earlier version, which knew no assignments, or no pauses.
        Err(error) if is_not_permitted(&error) => {
            match call().key(namespace.pauses()).invoke_async(connection).await {
                Err(error) if is_not_permitted(&error) => call().invoke_async(connection).await,
                polled => polled,
            }
        }
        polled => polled,
    }
}

/// The daemons alive.
///
/// # Errors
/// Errors of Redis.
pub async fn daemons(connection: &mut impl InNamespace) -> RedisResult<Vec<DaemonStatus>> {
    let (now, namespace) = (poll(connection).await?.now, connection.namespace());
    let ids: Vec<String> =
        Cmd::zrangebyscore(namespace.daemons(), now, "+inf").query_async(connection).await?;
    let mut alive = Vec::with_capacity(ids.len());
    for id in ids {
        let details: HashMap<String, String> =
            Cmd::hgetall(namespace.daemon_details(&id)).query_async(connection).await?;
        let number = |field: &str| details.get(field).and_then(|value| value.parse().ok()).unwrap_or(0);
        let health = Health {
            lag: Duration::from_micros(number("lag")),
            credited: number("credited"),
            repaired: number("repaired"),
            reloads: number("reloads"),
            refused: details
                .get("refused")
                .filter(|problem| !problem.is_empty())
                .map(|problem| (problem.clone(), number("refused_since"))),
            version: details.get("version").cloned().unwrap_or_default(),
            owner: details.get("owner").map(|owner| Owner::published(owner)).unwrap_or_default(),
            config: details.get("config").and_then(|hash| hash.parse().ok()).unwrap_or_default(),
        };
        alive.push(DaemonStatus { id, health, declaration: declaration(&details) });
    }
    Ok(alive)
}

/// Asks Redis to write, in a way that changes nothing.
///
/// # Errors
/// The reason why Redis does not write: it is a replica, out of memory, or cannot save.
pub async fn check_writes(connection: &mut impl InNamespace) -> RedisResult<()> {
    let (mut write, nobody) = (Cmd::new(), connection.namespace().daemon_details("none"));
    // No daemon has this id, so there is no key to overwrite.
    write.arg("SET").arg(nobody).arg("").arg("XX");
    write.query_async(connection).await
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

/// The config in the details of a daemon; `None` if it has declared none.
pub(super) fn declaration(details: &HashMap<String, String>) -> Option<Declaration> {
    let limits = details.get("limits")?.split(' ').filter_map(|word| {
        let (name, fingerprint) = word.split_once(['=', '!'])?;
        let limit = DeclaredLimit { fingerprint: fingerprint.parse().ok()?, held: word.contains('=') };
        Some((name.parse().ok()?, limit))
    });
    Some(Declaration {
        owner: Owner::published(details.get("owner")?),
        loaded: details.get("loaded")?.parse().ok()?,
        limits: limits.collect(),
    })
}
