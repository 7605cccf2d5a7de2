//! What everything is measured on: a private Redis on a CPU of its own, and the daemon.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};
use topup::Client;
use topup_embedded::RedisServer;
use topup_measure::Meter;
use topup_wire::scripts;

use crate::{child_process, cpu, limiter, machine, rules};

/// A daemon publishes within some 10 ms; this is for 10,000 limits on a machine that is busy with something else.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// What of the user's environment would make this daemon another than its config says.
const NOT_INHERITED: [&str; 4] = ["TOPUP_REDIS_URL", "TOPUP_LOG", "NOTIFY_SOCKET", "WATCHDOG_USEC"];

/// A private Redis and `topupd` on it; both end with this.
#[derive(Debug)]
pub struct Fixture {
    daemon: Option<Child>,
    topupd: PathBuf,
    connection: MultiplexedConnection,
    redis: RedisServer,
}

// === impl Fixture ===

impl Fixture {
    /// Starts both; `module` is loaded into Redis.
    ///
    /// # Errors
    /// When either does not start.
    pub async fn start(topupd: &Path, module: Option<&Path>) -> anyhow::Result<Self> {
        let mut builder = RedisServer::builder().tcp();
        if let Some(module) = module {
            builder = builder.arg("--loadmodule", module);
        }
        let redis = builder.start()?;
        cpu::pin_redis(redis.pid().context("Redis has ended")?)?;
        // Without a time limit: emptying a Redis of a million keys takes a while.
        let connection = limiter::open(redis.url(), None).await?;
        let mut fixture = Self { daemon: None, topupd: topupd.to_owned(), connection, redis };
        fixture.start_daemon(&rules::config(fixture.url())).await?;
        Ok(fixture)
    }

    /// Where the Redis listens.
    pub fn url(&self) -> &str {
        self.redis.url()
    }

    /// Its version.
    pub(crate) async fn redis_version(&mut self) -> anyhow::Result<String> {
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut self.connection).await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("of unknown version").trim().to_owned())
    }

    /// What Redis has done so far.
    pub(crate) async fn meter(&mut self) -> anyhow::Result<Meter> {
        Meter::read(&mut self.connection).await
    }

    /// Empties Redis: what one measurement leaves behind is not to burden the next.
    pub(crate) async fn clear(&mut self) -> anyhow::Result<()> {
        redis::cmd("FLUSHALL").arg("SYNC").exec_async(&mut self.connection).await?;
        Ok(())
    }

    /// Returns when the daemon has published the limit `name`, and all else there is.
    ///
    /// # Errors
    /// When it has not in time.
    pub async fn published(&self, name: &str, key: Option<&str>) -> anyhow::Result<()> {
        let client = Client::connect(self.url()).await?;
        let bucket = client.limit(name);
        let bucket = match key {
            Some(key) => bucket.key(key),
            None => bucket,
        };
        let looking = async {
            loop {
                match bucket.peek().await {
                    Ok(_) => break,
                    Err(topup::Error::UnknownLimit { .. } | topup::Error::NothingPublished { .. }) => {
                        sleep(Duration::from_millis(2)).await
                    }
                    // A machine that is busy with something else.
                    Err(error) if error.is_transient() => {}
                    Err(error) => return Err(anyhow::Error::from(error)),
                }
            }
            // The last word of a publication: who heard of limits before it has to ask again about all of them.
            while scripts::generation(&mut self.connection.clone()).await?.is_none() {
                sleep(Duration::from_millis(2)).await;
            }
            Ok(())
        };
        timeout(READY_WITHIN, looking).await.with_context(|| format!("topupd does not publish {name}"))?
    }

    /// Starts the daemon, in place of one that runs.
    pub(crate) async fn start_daemon(&mut self, config: &str) -> anyhow::Result<()> {
        self.stop_daemon().await;
        ensure!(self.topupd.exists(), "{} is missing: scripts/bench builds it", self.topupd.display());
        let path = self.config();
        fs::write(&path, config)?;
        let mut command = child_process::command(&self.topupd, false)?;
        command.args(["run", "--config"]).arg(&path).env("NO_COLOR", "1").stdin(Stdio::null());
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        self.daemon = Some(command.stdout(Stdio::null()).stderr(File::create(self.log())?).spawn()?);
        Ok(())
    }

    /// Returns when every bucket has been looked at since the daemon was started, as its log says.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        let looking = async {
            while !fs::read_to_string(self.log())?.contains("ready: ") {
                sleep(Duration::from_millis(2)).await;
            }
            anyhow::Ok(())
        };
        timeout(READY_WITHIN, looking).await.context("topupd does not get ready")?
    }

    /// Gives the daemon another config.
    pub(crate) fn reload_daemon(&self, config: &str) -> anyhow::Result<()> {
        let pid =
            self.daemon_id().and_then(|pid| Pid::from_raw(pid.cast_signed())).context("no daemon runs")?;
        fs::write(self.config(), config)?;
        Ok(kill_process(pid, Signal::HUP)?)
    }

    /// Returns when the limit `name` holds `capacity`.
    pub(crate) async fn has_capacity(&self, name: &str, capacity: u64) -> anyhow::Result<()> {
        let bucket = Client::connect(self.url()).await?.limit(name);
        let looking = async {
            while bucket.peek().await?.capacity() != capacity {
                sleep(Duration::from_millis(1)).await;
            }
            anyhow::Ok(())
        };
        timeout(READY_WITHIN, looking).await.with_context(|| format!("topupd does not change {name}"))?
    }

    /// Kills the daemon.
    pub(crate) async fn stop_daemon(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            child_process::end(daemon).await;
        }
    }

    /// CPU seconds that the daemon has used.
    pub(crate) fn daemon_used(&self) -> f64 {
        // None when it does not run: then it uses nothing.
        self.daemon_id().and_then(|pid| machine::used_by(pid).ok()).unwrap_or(0.0)
    }

    /// Bytes of memory that the daemon has.
    pub(crate) fn daemon_memory(&self) -> f64 {
        self.daemon_id().and_then(|pid| machine::resident(pid).ok()).unwrap_or(0.0)
    }

    fn daemon_id(&self) -> Option<u32> {
        self.daemon.as_ref().and_then(Child::id)
    }

    fn config(&self) -> PathBuf {
        self.redis.folder().join("config.toml")
    }

    fn log(&self) -> PathBuf {
        self.redis.folder().join("topupd.log")
    }

    /// Buckets credited so far, and how far the last refill was behind its time in ms, as the daemon itself says.
    pub(crate) async fn credited(&self) -> anyhow::Result<(f64, f64)> {
        let asked = Command::new(&self.topupd).args(["status", "--json", "--redis", self.url()]).output();
        let status: serde_json::Value = serde_json::from_slice(&asked.await?.stdout)?;
        let daemon = &status["daemons"][0];
        let number =
            |name: &str| daemon[name].as_f64().with_context(|| format!("topupd status has no {name}"));
        Ok((number("credited")?, number("lag_ms")?))
    }
}
