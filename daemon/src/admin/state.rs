//! The state that all pages of the admin server read.

use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use topup_wire::{
    bucket::Operation,
    connection::{Connection, connect_lazily},
};

use super::{
    cached::Cached,
    feed::Feed,
    peek::{Peeked, settle},
    upcoming::{Change, Upcoming},
};
use crate::{
    config::{Config, RedisUrl},
    config_status::ConfigStatus,
    metrics::Metrics,
    refill::EngineStatus,
    report::{Pace, StatusReport, gather},
};

/// Most streams of events at once.
pub(super) const MOST_STREAMS: usize = 16;

/// The settings of an admin server: what it tells of its daemon.
#[derive(Debug)]
pub(crate) struct AdminSettings {
    /// The Redis of the daemon.
    pub(crate) url: RedisUrl,
    /// The name of the daemon.
    pub(crate) daemon: String,
    pub(crate) status: watch::Receiver<EngineStatus>,
    pub(crate) config: watch::Receiver<ConfigStatus>,
    pub(crate) metrics: Metrics,
}

/// The state that all pages read.
#[derive(Clone)]
pub(super) struct AdminState(Arc<Shared>);

struct Shared {
    daemon: String,
    status: watch::Receiver<EngineStatus>,
    config: watch::Receiver<ConfigStatus>,
    metrics: Metrics,
    /// A connection of its own, so that no answer to the engine comes behind one to a page.
    connection: Option<Connection>,
    redis: String,
    reports: Cached<(), StatusReport>,
    peeks: Cached<(String, Option<String>), Peeked>,
    feed: Feed,
    streams: Arc<Semaphore>,
    upcoming: Mutex<Upcoming>,
    may_act: bool,
}

// === impl AdminState ===

impl AdminState {
    /// Its connection is served by the runtime that this is called in.
    pub(super) fn new(settings: AdminSettings) -> Self {
        let AdminSettings { url, daemon, status, config, metrics } = settings;
        // The engine has connected to the same URL, so it is a right one.
        let connection = connect_lazily(url.as_str()).ok();
        let connection = connection.map(|connection| connection.in_namespace(url.namespace()));
        let (reports, peeks, feed) = (Cached::new(), Cached::new(), Feed::new());
        let (streams, upcoming) = (Arc::new(Semaphore::new(MOST_STREAMS)), Mutex::default());
        let redis = url.to_string();
        let may_act = config.borrow().config.admin.as_ref().is_some_and(|admin| admin.token_file.is_some());
        Self(Arc::new(Shared {
            daemon,
            status,
            config,
            metrics,
            connection,
            redis,
            reports,
            peeks,
            feed,
            streams,
            upcoming,
            may_act,
        }))
    }

    pub(super) fn daemon(&self) -> &str {
        &self.0.daemon
    }

    pub(super) fn status(&self) -> EngineStatus {
        self.0.status.borrow().clone()
    }

    pub(super) fn status_to_come(&self) -> watch::Receiver<EngineStatus> {
        self.0.status.clone()
    }

    pub(super) fn config(&self) -> ConfigStatus {
        self.0.config.borrow().clone()
    }

    pub(super) fn connection(&self) -> Option<Connection> {
        self.0.connection.clone()
    }

    pub(super) fn feed(&self) -> &Feed {
        &self.0.feed
    }

    /// Whether there is a token, so that requests may change something.
    pub(super) fn may_act(&self) -> bool {
        self.0.may_act
    }

    /// A place among the open streams, if there is one.
    pub(super) fn stream_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.0.streams.clone().try_acquire_owned().ok()
    }

    /// The state of a bucket, at most a second old.
    pub(super) async fn peek(&self, limit: String, key: Option<String>) -> Arc<Peeked> {
        let asked = (limit.clone(), key.clone());
        let peek = async {
            match self.connection() {
                Some(connection) => settle(connection, limit, key, Operation::Peek(1)).await,
                None => Err((StatusCode::SERVICE_UNAVAILABLE, "Redis: no connection".to_owned())),
            }
        };
        self.0.peeks.get(asked, peek).await
    }

    /// The metrics of this daemon.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The changes that the schedules of `config` make after `now`.
    pub(super) fn upcoming(&self, config: &Arc<Config>, now: u64) -> Vec<Change> {
        self.0.upcoming.lock().unwrap_or_else(PoisonError::into_inner).after(config, now)
    }

    /// The bucket has been changed: the next look asks Redis.
    pub(super) async fn forget_peek(&self, bucket: &(String, Option<String>)) {
        self.0.peeks.forget(bucket).await;
    }

    /// The published state, at most a second old.
    pub(super) async fn report(&self) -> Arc<StatusReport> {
        let shared = &self.0;
        let gather = async {
            match &shared.connection {
                Some(connection) => gather(shared.redis.clone(), connection, Pace::GENTLE).await,
                None => StatusReport::default(),
            }
        };
        shared.reports.get((), gather).await
    }
}
