//! The running daemon: puts the engine, the scheduled wake-ups and the signals together.

mod daemon_id;
mod reload;
mod start;
mod status_line;

use std::{future, mem, sync::Arc, time::Duration};

use anyhow::Context;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{interval, timeout},
};
use topup_wire::claims::Owner;

use crate::{
    admin::AdminServer,
    config::{Config, ConfigFiles, Problems, RedisUrl},
    config_source::ConfigSource,
    config_status::ConfigStatus,
    metrics::Metrics,
    refill::{EngineCommand, EngineStatus},
    signals::{Request, Requests},
    source::Sources,
    systemd,
    wake_ups::WakeUps,
    watch::FileWatch,
};
pub use daemon_id::daemon_id;

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
}

/// The files of the config after a change; never without a watch.
async fn changed_files(watch: &mut Option<FileWatch>) -> ConfigFiles {
    match watch {
        Some(watch) => watch.changed().await,
        None => future::pending().await,
    }
}
