//! Incidents in which Redis refuses commands.

use redis::{Client, Cmd, RedisResult};

use crate::{Redis, SOON, eventually};

/// A state in which Redis refuses writes, or all commands.
#[derive(Clone, Copy, Debug)]
pub enum Incident {
    /// It has no memory left.
    Memory,
    /// Too few replicas are connected.
    Replicas,
    /// It is a replica itself.
    Replica,
    /// It could not save a snapshot. Needs a server with `--dbfilename folder`.
    Disk,
    /// A script runs without end.
    Busy,
}

// === impl Incident ===

impl Incident {
    /// Returns when Redis refuses commands.
    ///
    /// # Panics
    /// When it does not.
    pub async fn begin(self, redis: &Redis) {
        match self {
            Self::Memory => set(redis, "maxmemory", "1").await,
            Self::Replicas => set(redis, "min-replicas-to-write", "1").await,
            // Port 9 is discard's: no master is there.
            Self::Replica => redis.ask::<()>(&["REPLICAOF", "127.0.0.1", "9"]).await,
            Self::Disk => {
                set(redis, "save", "3600 1").await;
                std::fs::create_dir(redis.server.folder().join("folder")).expect("a new folder");
                redis.ask::<String>(&["BGSAVE"]).await;
                let failed = "rdb_last_bgsave_status:err";
                let persistence = async || redis.ask::<String>(&["INFO", "persistence"]).await;
                eventually(SOON, async || persistence().await.contains(failed)).await;
            }
            Self::Busy => {
                set(redis, "lua-time-limit", "1").await;
                // Redis does not read from the connection of a script that runs.
                let other = Client::open(redis.url()).expect("the server's own URL");
                let mut other = other.get_multiplexed_async_connection().await.expect("a connection");
                tokio::spawn(async move {
                    let mut script = Cmd::new();
                    script.arg("EVAL").arg("while true do end").arg(0).query_async::<()>(&mut other).await
                });
                // No answer in time would be that of a machine that stands still.
                eventually(SOON, async || ping(redis).await.is_err_and(|error| error.code() == Some("BUSY")))
                    .await;
            }
        }
    }

    /// Returns when Redis carries commands out again.
    ///
    /// # Panics
    /// When it does not.
    pub async fn end(self, redis: &Redis) {
        match self {
            Self::Memory => set(redis, "maxmemory", "0").await,
            Self::Replicas => set(redis, "min-replicas-to-write", "0").await,
            Self::Replica => redis.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await,
            Self::Disk => set(redis, "save", "").await,
            Self::Busy => {
                redis.ask::<()>(&["SCRIPT", "KILL"]).await;
                eventually(SOON, async || ping(redis).await.is_ok()).await;
            }
        }
    }
}

async fn set(redis: &Redis, name: &str, value: &str) {
    redis.ask::<()>(&["CONFIG", "SET", name, value]).await;
}

async fn ping(redis: &Redis) -> RedisResult<()> {
    Cmd::new().arg("PING").query_async(&mut redis.connection()).await
}
