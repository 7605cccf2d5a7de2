//! A private Redis with a daemon.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use redis::Cmd;
use tokio::time::{sleep, timeout};
use topup_embedded::{Builder, RedisServer};
use topup_wire::connection::{Connection, connect_lazily};

use crate::{Daemon, RedisCounters, machine, published, redis_version};

/// A daemon publishes within some 10 ms; this is for 10,000 limits on a machine that is busy with something else.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks at a daemon's log.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A private Redis and perhaps `topupd` on it. Both end with the value.
#[derive(Debug)]
pub struct Fixture {
    // First, so that it ends before its Redis.
    daemon: Option<Daemon>,
    topupd: PathBuf,
    connection: Connection,
    redis: RedisServer,
}

// === impl Fixture ===

impl Fixture {
    /// Starts the Redis. `topupd` is the daemon's program.
    ///
    /// # Errors
    /// When Redis does not start.
    pub fn start(redis: Builder, topupd: &Path) -> anyhow::Result<Self> {
        let redis = redis.start()?;
        let connection = connect_lazily(redis.url())?;
        Ok(Self { daemon: None, topupd: topupd.to_owned(), connection, redis })
    }

    /// The URL of the Redis.
    pub fn url(&self) -> &str {
        self.redis.url()
    }

    /// The Redis.
    pub const fn redis(&self) -> &RedisServer {
        &self.redis
    }

    /// The version of the Redis.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn redis_version(&mut self) -> anyhow::Result<String> {
        redis_version(&mut self.connection).await
    }

    /// Reads the counters of the Redis.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn counters(&mut self) -> anyhow::Result<RedisCounters> {
        RedisCounters::read(&mut self.connection).await
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn clear(&mut self) -> anyhow::Result<()> {
        Ok(Cmd::new().arg("FLUSHALL").arg("SYNC").exec_async(&mut self.connection).await?)
    }

    /// Returns when the daemon has published all of `buckets`, see [`published()`].
    ///
    /// # Errors
    /// When the daemon has not in time, or has ended.
    pub async fn published(&mut self, buckets: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
        let daemon = self.daemon.as_mut().context("no daemon runs")?;
        let ready = tokio::select! {
            ready = published(self.redis.url(), buckets, READY_WITHIN) => ready,
            error = daemon.failure() => return Err(error),
        };
        ready.map_err(|error| daemon.explain(error))
    }

    /// Starts the daemon with `config`, in place of one that runs.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start_daemon(&mut self, config: &str) -> anyhow::Result<()> {
        self.kill_daemon().await;
        self.daemon = Some(Daemon::start(Daemon::command(&self.topupd)?, self.redis.folder(), config)?);
        Ok(())
    }

    /// The daemon.
    ///
    /// # Errors
    /// When none runs.
    pub fn daemon(&mut self) -> anyhow::Result<&mut Daemon> {
        self.daemon.as_mut().context("no daemon runs")
    }

    /// Returns when the daemon has looked at every bucket since its start, as its log says.
    ///
    /// # Errors
    /// When it has not in time, or has ended.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        let daemon = self.daemon()?;
        let looks = async {
            while !daemon.has_logged("ready: ")? {
                tokio::select! {
                    error = daemon.failure() => return Err(error),
                    // Between two looks at the log: the look and the deadline decide.
                    () = sleep(LOOK_EVERY) => {}
                }
            }
            anyhow::Ok(())
        };
        timeout(READY_WITHIN, looks).await.context("topupd does not get ready")?
    }

    /// The status of the first daemon, as `topupd status` says.
    ///
    /// # Errors
    /// When `topupd` fails.
    pub async fn daemon_status(&self) -> anyhow::Result<serde_json::Value> {
        let mut command = tokio::process::Command::from(Daemon::command(&self.topupd)?);
        let output = command.args(["status", "--json", "--redis", self.url()]).output().await?;
        let mut status: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("topupd status")?;
        Ok(status["daemons"][0].take())
    }

    /// Asks the daemon to end and waits until it has.
    ///
    /// # Errors
    /// When it does not end in time, or not well.
    pub async fn stop_daemon(&mut self) -> anyhow::Result<()> {
        match self.daemon.take() {
            Some(daemon) => daemon.stop().await,
            None => Ok(()),
        }
    }

    /// Kills the daemon, if one runs.
    pub async fn kill_daemon(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.kill().await;
        }
    }

    /// CPU seconds that the daemon has used; 0 when none runs.
    pub fn daemon_cpu(&self) -> f64 {
        self.daemon_id().and_then(|pid| machine::used_by(pid).ok()).unwrap_or(0.0)
    }

    /// Bytes of memory that the daemon has; 0 when none runs.
    pub fn daemon_memory(&self) -> f64 {
        self.daemon_id().and_then(|pid| machine::resident(pid).ok()).unwrap_or(0.0)
    }

    fn daemon_id(&self) -> Option<u32> {
        self.daemon.as_ref().and_then(Daemon::id)
    }
}
