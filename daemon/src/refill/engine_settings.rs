//! The settings of an engine, and the commands to it.

use std::{collections::BTreeSet, sync::Arc};

use topup_wire::{claims::Owner, limit::LimitName};

use crate::{
    config::{Config, RedisUrl},
    metrics::Metrics,
};

/// A command to the engine.
#[derive(Debug)]
pub enum EngineCommand {
    /// Publish this config from now on.
    Apply(Arc<Config>),
    /// Say in each heartbeat that this problem keeps the config on disk from being used; `None` once it is used.
    Refuse(Option<String>),
    /// Look for due work: a schedule may have reached a boundary.
    Wake,
}

/// The settings of an engine.
#[derive(Debug)]
pub struct EngineSettings {
    /// The name of this daemon among others.
    pub id: String,
    /// The Redis to serve.
    pub url: RedisUrl,
    /// The config to publish.
    pub config: Arc<Config>,
    /// Whether to publish it. If not, the engine refills what is published until another config comes.
    pub publishes: bool,
    /// Its name among others.
    pub owner: Owner,
    /// Limits that it may take over from configs without a live daemon, at its start.
    pub take_over: BTreeSet<LimitName>,
    /// The metrics that it writes.
    pub metrics: Metrics,
}
