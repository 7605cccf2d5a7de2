//! The running daemon: engine, alarm and signals put together.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{interval, timeout},
};

use crate::{
    alarm::Alarm,
    config::{Config, RedisUrl},
    publish::changes,
    refill::{Command, Engine, Settings, Status},
    signals::{Request, Requests},
    source::Source,
    systemd,
    text::counted,
};

/// A stopping daemon is gone within a second, whatever Redis does.
const GRACE: Duration = Duration::from_millis(800);
/// systemd asks for a sign of life at most this often; its shortest sensible watchdog is a few seconds.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A daemon that runs.
#[derive(Debug)]
pub struct App {
    source: Source,
    /// The Redis being served.
    url: RedisUrl,
    config: Arc<Config>,
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<Status>,
    stop: watch::Sender<bool>,
    engine: JoinHandle<()>,
    alarm: Alarm,
    /// Every bucket has been looked at once.
    ready: bool,
    /// The problems of the file, while it is worse than what runs.
    bad_since: Option<String>,
}

// === impl App ===

impl App {
    /// Starts serving what `source` says.
    ///
    /// # Errors
    /// When the Redis URL is none, or the scheduler cannot start. A Redis that is away is waited for.
    pub async fn start(source: Source, config: Config, id: String) -> anyhow::Result<Self> {
        let url = source.redis_url(&config)?;
        let limits = counted(config.limits.len(), "limit");
        tracing::info!("topupd {} serves {limits} on {url}", env!("CARGO_PKG_VERSION"));
        let config = Arc::new(config);
        let settings = Settings { id, url: url.clone(), config: config.clone() };
        let (engine, status) = Engine::new(settings).context("redis.url")?;
        let (commands, received) = mpsc::channel(16);
        let (stop, stopped) = watch::channel(false);
        let alarm = Alarm::set(&config, &commands).await?;
        let engine = tokio::spawn(engine.run(received, stopped));
        Ok(Self { source, url, config, commands, status, stop, engine, alarm, ready: false, bad_since: None })
    }

    /// Serves until a signal ends it.
    ///
    /// # Errors
    /// When the engine ends by itself, which it never should.
    pub async fn serve(mut self, mut requests: Requests) -> anyhow::Result<()> {
        let mut signs_of_life = interval(SIGN_OF_LIFE);
        let mut ticks = 0;
        let mut status = self.status.clone();
        loop {
            tokio::select! {
                request = requests.next() => match request {
                    Request::Stop => break,
                    Request::Reload => self.reload().await?,
                    Request::Report => tracing::info!("{}", self.report()),
                },
                changed = status.changed(), if !self.ready => {
                    changed.context("the engine ended by itself")?;
                    if status.borrow().ready {
                        self.ready = true;
                        tracing::info!("ready: every bucket has been looked at");
                        systemd::ready(&self.report());
                    }
                }
                _ = signs_of_life.tick() => {
                    anyhow::ensure!(!self.engine.is_finished(), "the engine ended by itself");
                    // From the tick loop, not from Redis: a daemon that waits for Redis is not stuck.
                    let alive = std::mem::replace(&mut ticks, self.status.borrow().ticks) != ticks;
                    if alive {
                        systemd::watchdog();
                    }
                    systemd::status(&self.report());
                }
            }
        }
        self.drain().await;
        Ok(())
    }

    async fn drain(self) {
        tracing::info!("stopping");
        systemd::stopping();
        let _ = self.stop.send(true);
        if timeout(GRACE, self.engine).await.is_err() {
            tracing::warn!("Redis did not answer in time: what is under way is left to it");
        }
        tracing::info!("stopped");
    }

    /// Obeys the config as it is now, or keeps the one in force when it is bad.
    async fn reload(&mut self) -> anyhow::Result<()> {
        // To systemd, the end of a reload is that of a start as well: until then it hears of neither.
        if self.ready {
            systemd::reloading();
        }
        match self.source.load() {
            Err(problems) => {
                for problem in problems.to_string().lines() {
                    tracing::error!("{problem}");
                }
                tracing::error!("the config is refused as a whole; the one in force stays");
                self.bad_since = Some(problems.to_string().lines().next().unwrap_or_default().to_owned());
            }
            Ok(config) => self.obey(config).await?,
        }
        if self.ready {
            systemd::ready(&self.report());
        }
        Ok(())
    }

    async fn obey(&mut self, config: Config) -> anyhow::Result<()> {
        self.bad_since = None;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        // One that is no URL any more is told at that restart.
        if self.source.redis_url(&config).is_ok_and(|url| url != self.url) {
            tracing::warn!(
                "redis.url has changed: that takes a restart; the limits are obeyed where they are"
            );
        }
        let changes = changes(&self.config, &config);
        if changes.is_empty() {
            tracing::info!("reloaded: nothing has changed");
        }
        for change in changes {
            tracing::info!("reloaded: {change}");
        }
        self.config = Arc::new(config);
        let alarm = Alarm::set(&self.config, &self.commands).await?;
        std::mem::replace(&mut self.alarm, alarm).unset().await;
        self.commands.send(Command::Apply(self.config.clone())).await.context("the engine ended by itself")
    }

    /// How it is going, in one line.
    fn report(&self) -> String {
        let status = *self.status.borrow();
        let redis = if status.connected { "connected" } else { "Redis is away" };
        let bad = self.bad_since.as_ref().map(|problem| format!(", config on disk refused: {problem}"));
        format!(
            "{redis}, {}, generation {}, {}, {} credited, lag {:.1} ms{}",
            counted(self.config.limits.len(), "limit"),
            status.generation,
            counted(status.shards, "shard"),
            counted(status.credited as usize, "bucket"),
            status.lag.as_secs_f64() * 1e3,
            bad.unwrap_or_default(),
        )
    }
}

/// The name of this daemon among others: host and process.
pub fn daemon_id() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

/// Where the config is looked for when none is named.
pub fn default_config() -> PathBuf {
    let here = PathBuf::from("config.toml");
    if here.exists() { here } else { PathBuf::from("/etc/topup/config.toml") }
}
