//! When to publish: at the start, after a reload, at a boundary of a schedule, and when Redis has forgotten.

use std::sync::Arc;

use redis::RedisResult;
use topup_wire::connection::Connection;

use super::patience::{InFlight, LONGEST_TICK, NowAndThen, finished};
use crate::{
    clock::Moment,
    config::Config,
    publish::publish,
    wanted::{has_calendar, next_boundary, wanted},
};

/// What is still to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    /// Nothing.
    Nothing,
    /// All, from the instants that schedules name: nobody was there to apply them.
    Scheduled,
    /// All, from now.
    Now,
}

/// A config on its way to Redis.
pub(super) struct Publication {
    config: Arc<Config>,
    pending: Pending,
    /// When a schedule changes something next, in µs of Redis `TIME`.
    boundary: Option<u64>,
    running: Option<InFlight<RedisResult<bool>>>,
    /// What was pending when that began.
    began: Pending,
    failed: Option<Moment>,
    failures: NowAndThen,
}

// === impl Publication ===

impl Publication {
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            pending: Pending::Scheduled,
            boundary: None,
            running: None,
            began: Pending::Nothing,
            failed: None,
            failures: NowAndThen::default(),
        }
    }

    /// Publishes another config, from now.
    pub(super) fn replace(&mut self, config: Arc<Config>) {
        (self.config, self.pending, self.failed) = (config, Pending::Now, None);
    }

    /// Publishes everything again, as at the start.
    pub(super) fn again(&mut self) {
        self.pending = Pending::Scheduled;
    }

    /// Looks with the next tick whether a schedule has changed something.
    pub(super) fn look(&mut self) {
        self.boundary = Some(0);
    }

    /// Whether Redis does not say yet what it is to say.
    pub(super) fn is_under_way(&self) -> bool {
        self.running.is_some() || self.pending != Pending::Nothing
    }

    /// Whether a boundary is being crossed: what is refilled meanwhile would get the rate before it for time behind it.
    pub(super) fn is_crossing(&self) -> bool {
        self.running.is_some() && self.began == Pending::Nothing
    }

    /// Begins to publish what there is to publish at `now`, in µs of Redis `TIME`.
    pub(super) fn begin(&mut self, connection: &Connection, now: u64) {
        if self.running.is_some() || self.failed.is_some_and(|failed| failed.elapsed() < LONGEST_TICK) {
            return;
        }
        let crossed = self.boundary.is_some_and(|boundary| boundary <= now);
        let (limits, alone) = match self.pending {
            Pending::Scheduled => (wanted(&self.config, now, |_| true), true),
            Pending::Now => {
                let mut limits = wanted(&self.config, now, |_| true);
                limits.iter_mut().for_each(|wanted| wanted.at = None);
                (limits, true)
            }
            Pending::Nothing if crossed => (wanted(&self.config, now, has_calendar), false),
            Pending::Nothing => return,
        };
        self.began = std::mem::replace(&mut self.pending, Pending::Nothing);
        self.boundary = next_boundary(&self.config, now);
        let connection = connection.clone();
        self.running = Some(Box::pin(async move { publish(&connection, &limits, alone).await }));
    }

    /// Whether publishing succeeded, when it ends; never ready while it does not run.
    pub(super) async fn ended(&mut self) -> Option<bool> {
        match finished(&mut self.running).await? {
            Ok(_) => {
                self.failed = None;
                Some(true)
            }
            Err(error) => {
                if self.failures.is_news() {
                    tracing::warn!("publishing was cut short ({error}); doing it again");
                }
                self.failed = Some(Moment::now());
                match self.began {
                    // A boundary was crossed.
                    Pending::Nothing => self.look(),
                    began if self.pending == Pending::Nothing => self.pending = began,
                    _ => {}
                }
                Some(false)
            }
        }
    }
}
