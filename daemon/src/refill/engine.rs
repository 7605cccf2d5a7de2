//! The state of the daemon, of which [`Engine::run`] is the loop. Other tasks send it commands and watch its status.

use std::{fmt, time::Duration};

use redis::RedisResult;
use tokio::sync::watch;
use topup_wire::{
    connection::{Connection, connect_lazily},
    limit::Limit,
    schema::NewerSchema,
};

use super::{
    at_rest::AtRestQueue,
    engine_settings::EngineSettings,
    healing::Healing,
    in_flight::{EndedHeartbeat, InFlight},
    latency::Latency,
    log_throttle::LogThrottle,
    passes::Passes,
    publication::Publication,
    published::PublishedShards,
    redis_health::RedisHealth,
    standing::Standing,
    status::EngineStatus,
};
use crate::{
    clock::{Moment, RedisTime},
    metrics::Metrics,
};

/// The refill engine.
pub struct Engine {
    pub(super) connection: Connection,
    pub(super) id: String,
    pub(super) tick: Duration,
    pub(super) redis_health: RedisHealth,
    pub(super) latency: Latency,
    pub(super) started: Moment,
    pub(super) heartbeat: Option<InFlight<EndedHeartbeat>>,
    /// The read of published limits in flight.
    pub(super) reading: Option<InFlight<RedisResult<PublishedShards>>>,
    pub(super) time: Option<RedisTime>,
    /// The schema in Redis, if this version does not know it.
    pub(super) newer_schema: Option<NewerSchema>,
    /// The most by which `time` is behind: the time of the heartbeat that told it.
    pub(super) behind: Duration,
    pub(super) publication: Publication,
    pub(super) at_rest: AtRestQueue,
    pub(super) passes: Passes,
    pub(super) healing: Healing,
    pub(super) refused: Option<String>,
    /// Configs that were applied or refused since the start.
    pub(super) reloads: u64,
    pub(super) read_failure_log: LogThrottle,
    pub(super) metrics: Metrics,
    /// The limits whose abandoned holds are looked for.
    pub(super) swept: watch::Sender<Vec<Limit>>,
    pub(super) status: watch::Sender<EngineStatus>,
}

// === impl Engine ===

impl Engine {
    /// An engine that does not run yet, and its status.
    ///
    /// # Errors
    /// If the URL is not one of a Redis.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(settings: EngineSettings) -> RedisResult<(Self, watch::Receiver<EngineStatus>)> {
        let (status, watched) = watch::channel(EngineStatus::default());
        let tick = settings.config.tick;
        let standing = Standing::new(settings.id.clone(), settings.owner, settings.take_over);
        let engine = Self {
            passes: Passes::new(tick, settings.metrics.clone()),
            metrics: settings.metrics,
            connection: connect_lazily(settings.url.as_str())?.in_namespace(settings.url.namespace()),
            id: settings.id,
            tick,
            redis_health: RedisHealth::default(),
            latency: Latency::default(),
            started: Moment::now(),
            heartbeat: None,
            reading: None,
            time: None,
            newer_schema: None,
            behind: Duration::ZERO,
            publication: Publication::new(settings.config, standing, settings.publishes),
            at_rest: AtRestQueue::default(),
            healing: Healing::new(),
            refused: None,
            reloads: 0,
            read_failure_log: LogThrottle::default(),
            swept: watch::Sender::new(Vec::new()),
            status,
        };
        Ok((engine, watched))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("id", &self.id)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}
