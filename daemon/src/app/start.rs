//! The start: the engine, the wake-ups, the sources and the admin server of a config.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use anyhow::Context;
use tokio::sync::{mpsc, watch};
use topup_wire::limit::LimitName;

use super::App;
use crate::{
    admin::{AdminServer, AdminSettings},
    clock::Moment,
    config::AdminConfig,
    config_source::{ConfigSource, LoadedFiles},
    config_status::ConfigStatus,
    metrics::Metrics,
    refill::{Engine, EngineSettings},
    source::{SourceSettings, Sources},
    text::counted,
    wake_ups::WakeUps,
};

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
}
