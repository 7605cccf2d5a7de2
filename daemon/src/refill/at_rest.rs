//! Settles buckets at rest of limits whose terms have changed, one limit after the other.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::sleep;
use topup_wire::{connection::Connection, limit::LimitName};

use super::in_flight::{InFlight, finished};
use crate::publish::settle_at_rest;

/// The pause after a failed attempt.
const PAUSE: Duration = Duration::from_secs(1);
/// Attempts per limit. After them, each bucket is settled by its next take.
const ATTEMPTS: u32 = 60;

/// Limits whose buckets at rest are to be settled.
#[derive(Default)]
pub(super) struct AtRestQueue {
    waiting: VecDeque<LimitName>,
    running: Option<InFlight<()>>,
}

// === impl AtRestQueue ===

impl AtRestQueue {
    /// Adds `limits`, and begins with the first if none is in flight.
    pub(super) fn add(&mut self, connection: &Connection, limits: BTreeSet<LimitName>) {
        self.waiting.extend(limits);
        self.begin(connection);
    }

    /// Waits until the limit in flight has ended. `None` at once if there is none.
    pub(super) async fn ended(&mut self) -> Option<()> {
        finished(&mut self.running).await
    }

    /// Begins with the next limit if none is in flight.
    pub(super) fn begin(&mut self, connection: &Connection) {
        if self.running.is_some() {
            return;
        }
        let Some(name) = self.waiting.pop_front() else { return };
        let connection = connection.clone();
        self.running = Some(Box::pin(async move {
            for _ in 0..ATTEMPTS {
                let Err(error) = settle_at_rest(&connection, &name).await else { return };
                tracing::debug!("limit {name}: not all buckets at rest are settled ({error}); trying again");
                sleep(PAUSE).await;
            }
        }));
    }
}
