//! The running daemon: puts the engine, the scheduled wake-ups and the signals together.

mod reload;

use std::{
    collections::BTreeSet,
    future,
    hash::{BuildHasher, RandomState},
    mem,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{interval, timeout},
};
use topup_wire::{claims::Owner, limit::LimitName};

use crate::{
    admin::{AdminServer, AdminSettings},
    clock::Moment,
    config::{AdminConfig, Config, ConfigFiles, Problems, RedisUrl},
    config_source::{ConfigSource, LoadedFiles},
    config_status::ConfigStatus,
    metrics::Metrics,
    refill::{Engine, EngineCommand, EngineSettings, EngineStatus},
    signals::{Request, Requests},
    source::{SourceSettings, Sources},
    systemd,
    text::{counted, utc},
    trouble,
    wake_ups::WakeUps,
    watch::FileWatch,
};

/// The time that the engine has to stop, so that the daemon ends within a second even if Redis hangs.
const GRACE: Duration = Duration::from_millis(800);
/// The time between two watchdog notifications. The shortest sensible watchdog of systemd is a few seconds.
const WATCHDOG_INTERVAL: Duration = Duration::from_secs(1);

/// The error of an engine that ends without a signal.
const ENGINE_ENDED: &str =
    "the engine ended by itself, which is a bug of topupd: report it with the log before this line";

/// A running daemon.
#[derive(Debug)]
pub struct App {
    source: ConfigSource,
    /// The name of the config that the engine publishes.
    owner: Owner,
    /// The Redis that the engine serves.
    url: RedisUrl,
    config: Arc<Config>,
    commands: mpsc::Sender<EngineCommand>,
    status: watch::Receiver<EngineStatus>,
    stop: watch::Sender<bool>,
    engine: JoinHandle<()>,
    wake_ups: WakeUps,
    /// The sources of assignments.
    sources: Sources,
    metrics: Metrics,
    /// The admin server, if there is one.
    admin: Option<AdminServer>,
    /// The config and its file, as the admin server tells them.
    told: watch::Sender<ConfigStatus>,
    /// Whether systemd has been told that the start is over.
    ready: bool,
    /// The files that were loaded last, good or bad.
    files: ConfigFiles,
    /// The watch on the files, if the config wants one.
    watch: Option<FileWatch>,
    /// The problems of the file, while the daemon refuses it and runs on with the config before, or without one.
    refused: Option<Problems>,
    /// Whether the daemon has had a config since it started.
    has_config: bool,
}

/// The end of a daemon that started with a bad config, where nothing is published that it could refill.
#[derive(Debug, thiserror::Error)]
#[error(
    "nothing is published that could be refilled without a config: fix the lines above, then start again"
)]
pub struct NothingPublished;

// === impl App ===

impl App {
    /// Starts the engine with the config that `source` has loaded. Where the file is refused, the engine refills what is
    /// published. An unreachable Redis does not end the start. Limits in `take_over` may be taken over from configs without
    /// a live daemon.
    ///
    /// # Errors
    /// If the Redis URL is malformed, or if the scheduler cannot start.
    pub async fn start(
        source: ConfigSource,
        LoadedFiles { files, config, refused }: LoadedFiles,
        id: String,
        take_over: BTreeSet<LimitName>,
    ) -> anyhow::Result<Self> {
        let (url, owner) = (source.redis_url(&config)?, source.owner(&config));
        let has_config = refused.is_none();
        let limits = match has_config {
            true => counted(config.limits.len(), "limit"),
            false => "what is published".to_owned(),
        };
        tracing::info!("topupd {} serves {limits} of config {owner} on {url}", env!("CARGO_PKG_VERSION"));
        let config = Arc::new(config);
        let metrics = Metrics::default();
        let (told, config_status) = watch::channel(ConfigStatus {
            file: source.file.clone(),
            owner: owner.clone(),
            config: config.clone(),
            applied: has_config.then(Moment::now),
            changes: None,
            refused: Vec::new(),
        });
        let settings = EngineSettings {
            id: id.clone(),
            url: url.clone(),
            config: config.clone(),
            publishes: has_config,
            owner: owner.clone(),
            take_over,
            metrics: metrics.clone(),
        };
        let (engine, status) = Engine::new(settings).context("redis.url")?;
        let (commands, received) = mpsc::channel(16);
        let (stop, stopped) = watch::channel(false);
        let wake_ups = WakeUps::schedule(&config, &commands).await?;
        let engine = tokio::spawn(engine.run(received, stopped));
        // The default has no limits.
        let followed = if has_config { config.clone() } else { Arc::default() };
        let folder = source.file.parent().unwrap_or(Path::new("")).to_owned();
        let sources =
            Sources::start(SourceSettings { id: id.clone(), url: url.clone(), folder, config: followed })
                .context("cannot start the thread of sources")?;
        let start_admin = |admin: &AdminConfig| {
            let (url, daemon, status) = (url.clone(), id, status.clone());
            let settings =
                AdminSettings { url, daemon, status, config: config_status, metrics: metrics.clone() };
            AdminServer::start(admin.clone(), settings)
        };
        let admin = config.admin.as_ref().map(start_admin).transpose();
        let admin = admin.context("cannot start the thread of the admin server")?;
        let mut app = Self {
            metrics,
            admin,
            told,
            source,
            owner,
            url,
            config,
            commands,
            status,
            stop,
            engine,
            wake_ups,
            sources,
            ready: false,
            files,
            watch: None,
            refused: None,
            has_config,
        };
        if let Some(problems) = refused {
            app.refuse(problems).await?;
        }
        app.watch_files();
        Ok(app)
    }

    /// Serves until a signal ends it.
    ///
    /// # Errors
    /// If the engine ends by itself, which it never should.
    pub async fn serve(mut self, mut requests: Requests) -> anyhow::Result<()> {
        let mut watchdog = interval(WATCHDOG_INTERVAL);
        let mut turns = 0;
        let mut status = self.status.clone();
        loop {
            tokio::select! {
                request = requests.next() => match request {
                    Request::Stop => break,
                    Request::Reload => self.reload().await?,
                    Request::LogStatus => tracing::info!("{}", self.status_line()),
                },
                files = changed_files(&mut self.watch) => self.files_changed(files).await?,
                changed = status.changed(), if !self.ready => {
                    changed.context(ENGINE_ENDED)?;
                    if status.borrow().ready {
                        self.ready = true;
                        tracing::info!("ready: every published shard has been refilled once");
                        systemd::ready(&self.status_line());
                    }
                }
                _ = watchdog.tick() => {
                    anyhow::ensure!(!self.engine.is_finished(), ENGINE_ENDED);
                    if !self.has_config && !self.ready && self.status.borrow().nothing_published {
                        self.drain().await;
                        return Err(NothingPublished.into());
                    }
                    // Turns of the loop, not answers of Redis: a daemon that waits for Redis is not stuck.
                    let has_turned = mem::replace(&mut turns, self.status.borrow().turns) != turns;
                    if has_turned {
                        systemd::watchdog();
                    }
                    systemd::status(&self.status_line());
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
        let engine = async {
            if timeout(GRACE, self.engine).await.is_err() {
                tracing::warn!("Redis did not answer in time: stopping without its replies");
            }
        };
        let admin = async {
            if let Some(admin) = self.admin {
                // Its socket goes with it, and has to be gone before the process is.
                admin.stop(GRACE).await;
            }
        };
        tokio::join!(engine, admin);
        tracing::info!("stopped");
    }

    /// The status in one line.
    fn status_line(&self) -> String {
        let status = self.status.borrow().clone();
        let redis = match (status.connected, status.cause, status.slow, status.newer_schema) {
            (true, _, _, Some(newer)) => format!("connected, writes nothing: {newer}"),
            (true, _, Some(latency), _) => format!("connected, Redis is slow ({latency:.0?})"),
            (true, ..) => "connected".to_owned(),
            (false, Some(cause), ..) => trouble::what(cause).to_owned(),
            (false, None, ..) => "Redis is away".to_owned(),
        };
        let refused = self.refused.as_ref().and_then(|problems| problems.0.first()).map(|problem| {
            let since = status.refused_since.map(|since| format!(" (since {})", utc(since)));
            format!(", config on disk refused: {problem}{}", since.unwrap_or_default())
        });
        format!(
            "{redis}, {}, generation {}, {}, {} credited, lag {:.1} ms{}{}",
            if self.has_config { counted(self.config.limits.len(), "limit") } else { "no config".to_owned() },
            status.generation,
            counted(status.shards, "shard"),
            counted(status.credited as usize, "bucket"),
            status.lag.as_secs_f64() * 1e3,
            refused.unwrap_or_default(),
            status.notes.iter().map(|note| format!(", {note}")).collect::<String>(),
        )
    }
}

/// The files of the config after a change; never without a watch.
async fn changed_files(watch: &mut Option<FileWatch>) -> ConfigFiles {
    match watch {
        Some(watch) => watch.changed().await,
        None => future::pending().await,
    }
}

/// The name of this daemon among others: host, process and a random token. Containers on one host may share the first
/// two.
pub fn daemon_id() -> String {
    let host = rustix::system::uname();
    let token = RandomState::new().hash_one(()) as u32;
    format!("{}:{}:{token:08x}", host.nodename().to_string_lossy(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As two containers on one host may be.
    #[test]
    fn two_daemons_of_one_host_and_process_id_have_two_names() {
        let [one, other] = [daemon_id(), daemon_id()];
        let process = |id: &str| id.rsplit_once(':').map(|(process, _)| process.to_owned());
        assert_eq!(process(&one), process(&other));
        assert_ne!(one, other);
    }
}
