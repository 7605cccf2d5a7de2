//! Reloads: a config that replaces the running one, or is refused.

use std::{mem, sync::Arc};

use anyhow::Context;

use super::{App, ENGINE_ENDED};
use crate::{
    config::{Config, ConfigFiles, Problems},
    publish::changes,
    refill::EngineCommand,
    restart::{Fixed, needs_restart},
    systemd,
    wake_ups::WakeUps,
    watch::FileWatch,
};

impl App {
    /// Starts or ends the watch on the files, as the config wants it.
    pub(super) fn watch_files(&mut self) {
        match (self.config.watch, &self.watch) {
            (true, None) => {
                tracing::info!("reloads by itself when {} changes", self.source.file.display());
                self.watch = Some(FileWatch::start(self.source.file.clone()));
            }
            (false, Some(_)) => self.watch = None,
            _ => {}
        }
    }

    /// Reads the file, as HUP asks for.
    pub(super) async fn reload(&mut self) -> anyhow::Result<()> {
        let files = self.source.read();
        if let Some(watch) = &mut self.watch {
            // The watch may know older files only. It begins anew, and so misses no later change.
            *watch = FileWatch::start(self.source.file.clone());
        }
        let loaded = files.parse();
        self.load(files, loaded).await
    }

    /// Loads the files that the watch has found, unless they have the content that is loaded already.
    pub(super) async fn files_changed(&mut self, files: ConfigFiles) -> anyhow::Result<()> {
        if files == self.files {
            return Ok(());
        }
        let loaded = match files.blank() {
            Some(problem) => Err(Problems(vec![problem])),
            None => files.parse(),
        };
        self.load(files, loaded).await
    }

    /// A good config replaces the running one; a bad one is logged and changes nothing.
    async fn load(&mut self, files: ConfigFiles, loaded: Result<Config, Problems>) -> anyhow::Result<()> {
        // To systemd, READY ends a reload and a start alike. During the start, a reload is therefore not told.
        if self.ready {
            systemd::reloading();
        }
        self.files = files;
        match loaded {
            Ok(config) => self.apply(config).await?,
            Err(problems) => self.refuse(problems).await?,
        }
        if self.ready {
            systemd::ready(&self.status_line());
        }
        Ok(())
    }

    /// Logs the problems of the file, unless they are known. The heartbeat carries the first of them.
    pub(super) async fn refuse(&mut self, problems: Problems) -> anyhow::Result<()> {
        self.metrics.reloaded(false);
        let is_known = self.refused.as_ref() == Some(&problems);
        for problem in problems.0.iter().filter(|_| !is_known) {
            tracing::error!("{problem}");
        }
        let stays = if self.has_config { "the running one stays" } else { "what is published is refilled" };
        let lines =
            if is_known { "with the same mistakes as before" } else { "fix the lines above, then reload" };
        tracing::error!("the config is refused as a whole, and {stays}: {lines}");
        let first = problems.0.first().map(ToString::to_string);
        self.told.send_modify(|told| told.refuse(&problems));
        self.refused = Some(problems);
        self.commands.send(EngineCommand::Refuse(first)).await.context(ENGINE_ENDED)
    }

    /// Logs the changes, schedules the wake-ups anew, and passes the config to the engine.
    async fn apply(&mut self, config: Config) -> anyhow::Result<()> {
        self.metrics.reloaded(true);
        (self.refused, self.has_config) = (None, true);
        self.commands.send(EngineCommand::Refuse(None)).await.context(ENGINE_ENDED)?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let (url, owner) = (self.source.redis_url(&config).ok(), self.source.owner(&config));
        let running = Fixed { url: Some(&self.url), owner: &self.owner, admin: self.config.admin.as_ref() };
        let new = Fixed { url: url.as_ref(), owner: &owner, admin: config.admin.as_ref() };
        for change in needs_restart(running, new) {
            tracing::warn!("{change}");
        }
        let changes = changes(&self.config, &config);
        if changes.is_empty() {
            tracing::info!("reloaded: nothing has changed");
        }
        for change in &changes {
            tracing::info!("reloaded: {change}");
        }
        self.config = Arc::new(config);
        self.watch_files();
        self.told.send_modify(|told| told.apply(self.config.clone(), &changes));
        let wake_ups = WakeUps::schedule(&self.config, &self.commands).await?;
        mem::replace(&mut self.wake_ups, wake_ups).cancel().await;
        self.sources.apply(self.config.clone());
        let command = EngineCommand::Apply(self.config.clone());
        self.commands.send(command).await.context(ENGINE_ENDED)
    }
}
