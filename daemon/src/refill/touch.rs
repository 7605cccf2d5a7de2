//! Buckets at rest of limits whose terms have changed: brought under the new ones one limit after the other.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::sleep;
use topup_wire::{connection::Connection, limit::LimitName};

use super::patience::{InFlight, finished};
use crate::publish::touch_at_rest;

/// A Redis that failed is asked again so much later, and so often. Takes bring buckets under the new terms, too.
const PAUSE: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 60;

/// Limits to be gone through.
#[derive(Default)]
pub(super) struct Touches {
    waiting: VecDeque<LimitName>,
    running: Option<InFlight<()>>,
}

// === impl Touches ===

impl Touches {
    /// Goes through these limits, too.
    pub(super) fn add(&mut self, connection: &Connection, limits: BTreeSet<LimitName>) {
        self.waiting.extend(limits);
        self.begin(connection);
    }

    /// One of them is done; never ready while there is none.
    pub(super) async fn ended(&mut self) -> Option<()> {
        finished(&mut self.running).await
    }

    /// Goes on with the next, if none is under way.
    pub(super) fn begin(&mut self, connection: &Connection) {
        if self.running.is_some() {
            return;
        }
        let Some(name) = self.waiting.pop_front() else { return };
        let connection = connection.clone();
        self.running = Some(Box::pin(async move {
            for _ in 0..ATTEMPTS {
                let Err(error) = touch_at_rest(&connection, &name).await else { return };
                tracing::debug!("limit {name}: buckets at rest not all touched ({error}); doing it again");
                sleep(PAUSE).await;
            }
        }));
    }
}
