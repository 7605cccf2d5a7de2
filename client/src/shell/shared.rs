//! What the clones of a client share, and the handle by which the shell passes it around.

use std::sync::{Arc, atomic::AtomicBool};
use std::time::Duration;

use tokio::runtime::Handle as Runtime;
#[cfg(feature = "tower")]
use topup_wire::limit::Supply;
use topup_wire::{connection::Connection, pipeline::Pipelines, scripts};

#[cfg(feature = "tower")]
use super::pauses::Pauses;
use super::{
    BucketCache, BucketEntry, LaneRequest, LimitHandle, Limits, Published,
    clock::Clock,
    control_poll::Control,
    dispatch::RoundTrip,
    module::Module,
    put_back::{self, PutBacks},
    timers::BucketTimers,
};
use crate::{
    error::Error,
    machine::{Event, Micros, PutBack},
    outage::Outage,
    tally::Tallies,
};

/// A clone of a client. The last one gives back what is in hand.
#[derive(Clone, Debug)]
pub(crate) struct Handle(Arc<Shared>);

/// What clones share.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) clock: Arc<Clock>,
    pub(crate) lanes: Pipelines<LaneRequest>,
    pub(crate) buckets: BucketCache,
    pub(crate) limits: Limits,
    pub(crate) control: Arc<Control>,
    pub(crate) deadline: Duration,
    pub(crate) deadline_micros: Micros,
    pub(crate) round_trip: RoundTrip,
    pub(crate) timers: Arc<BucketTimers>,
    pub(crate) put_backs: Arc<PutBacks>,
    pub(crate) outage: Outage,
    pub(crate) tallies: Arc<Tallies>,
    #[cfg(feature = "tower")]
    pub(crate) pauses: Pauses,
    /// Redis is a cluster, and does not decide on buckets of several slots at once.
    pub(crate) apart: AtomicBool,
    pub(crate) module: Module,
    /// What runs the client's own tasks, wherever it is called from.
    pub(crate) runtime: Runtime,
}

// === impl Handle ===

impl Handle {
    pub(crate) const fn of(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Takes out what was taken ahead, to be put back.
    pub(crate) fn in_hand(&self) -> Vec<(Arc<BucketEntry>, PutBack)> {
        let buckets = self.0.buckets.all().into_iter().filter(|entry| entry.in_hand(self) > 0);
        let taken_out = |entry: Arc<BucketEntry>| {
            let outcome = entry.step(Event::PutsBack(0), self, None);
            Some((entry, outcome.put_back.filter(|put_back| put_back.tokens > 0)?))
        };
        buckets.filter_map(taken_out).collect()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The last clone gives back what is in hand. Tasks of the shell hold clones for a moment only.
        if Arc::strong_count(&self.0) == 1 {
            let in_hand = self.in_hand();
            if !in_hand.is_empty() {
                let (connection, deadline) = (self.0.connection(), self.0.deadline);
                self.0.runtime.spawn(async move { put_back::give_all(in_hand, &connection, deadline).await });
            }
        }
    }
}

// === impl Shared ===

impl Shared {
    /// The connection, pipelined among all tasks.
    pub(crate) fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// Reads a limit as published now: one task at a time, for all who wait for it.
    pub(crate) async fn read(&self, limit: &LimitHandle) -> Result<Arc<Published>, Error> {
        let _reading = limit.reading.lock().await;
        let epoch = self.control.epoch();
        if let Some(published) = limit.current(epoch) {
            return Ok(published);
        }
        let mut connection = self.connection();
        let name = || limit.name.to_string();
        match scripts::read_limit(&mut connection, &limit.name).await? {
            Some(read) => {
                let tally = self.tallies.of(&read.limit);
                let published = Arc::new(Published::new(read, epoch, tally));
                limit.set(published.clone());
                Ok(published)
            }
            None => match scripts::generation(&mut connection).await? {
                Some(_) => Err(Error::UnknownLimit { limit: name() }),
                None => Err(Error::NothingPublished { limit: name() }),
            },
        }
    }

    /// Where tokens of the limit `name` come from, if that is known without asking.
    #[cfg(feature = "tower")]
    pub(crate) fn supply(&self, name: &str) -> Option<Supply> {
        let published = self.limits.find(name)?.current(self.control.epoch())?;
        Some(published.limit.terms.supply)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("deadline", &self.deadline)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}
