//! The state that clones of a client share.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use tokio::runtime::Handle as Runtime;
use topup_wire::limit::OnOutage;
#[cfg(feature = "tower")]
use topup_wire::limit::Supply;
use topup_wire::{connection::Connection, namespace::InNamespace, pipeline::Pipelines, scripts};

use super::{
    BucketCache, BucketEntry, LimitHandle, Limits, PipelineRequest, Published,
    breakers::Breakers,
    clock::Clock,
    control::Control,
    dispatch::RoundTrip,
    expiry::ExpiryQueue,
    key_plans::KeyPlans,
    local_buckets::LocalBuckets,
    module::Module,
    pauses::Pauses,
    put_back::{self, PutBacks},
    timers::BucketTimers,
};
use crate::{
    counts,
    error::Error,
    machine::{Micros, PutBack},
    outage::Outages,
    permits::Keeper,
};

/// A clone of a client. Tasks of the shell hold clones, too, for a moment each.
#[derive(Clone, Debug)]
pub(crate) struct Handle(Arc<Shared>);

/// The state that clones share.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) clock: Arc<Clock>,
    pub(crate) pipelines: Pipelines<PipelineRequest>,
    pub(crate) buckets: BucketCache,
    pub(crate) limits: Arc<Limits>,
    pub(crate) control: Arc<Control>,
    pub(crate) deadline: Duration,
    pub(crate) deadline_micros: Micros,
    pub(crate) round_trip: RoundTrip,
    pub(crate) timers: Arc<BucketTimers>,
    pub(crate) put_backs: Arc<PutBacks>,
    pub(crate) expiry_queue: Arc<ExpiryQueue>,
    pub(crate) outages: Arc<Outages>,
    pub(crate) on_outage: Option<OnOutage>,
    pub(crate) breakers: Breakers,
    pub(crate) local_buckets: LocalBuckets,
    /// The URL of the Redis, with its password.
    pub(crate) url: String,
    pub(crate) pauses: Arc<Pauses>,
    pub(crate) plans: Arc<KeyPlans>,
    /// Redis is a cluster, and decides no buckets of several hash slots in one script.
    pub(crate) buckets_are_split: AtomicBool,
    /// Tokens that decisions on several buckets, which take of one after the other, are about to take of each.
    pub(crate) wanted_in_order: AtomicU64,
    pub(crate) module: Module,
    pub(crate) permits: Arc<Keeper>,
    /// Runs the client's own tasks, whatever thread calls the client.
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

    pub(super) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
    }
}

// === impl Shared ===

impl Shared {
    /// The connection for commands outside the pipeline, shared by all tasks.
    pub(crate) fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// Removes the prefetched tokens of all buckets, to be put back.
    pub(crate) fn take_prefetched(&self) -> Vec<(Arc<BucketEntry>, PutBack)> {
        let put_back = |entry: Arc<BucketEntry>| Some((entry.clone(), entry.take_prefetched(self)?));
        self.buckets.all().into_iter().filter_map(put_back).collect()
    }

    /// Reads a limit as published now. One task reads it for all tasks that wait.
    pub(crate) async fn read(&self, limit: &LimitHandle) -> Result<Arc<Published>, Error> {
        let _reading = limit.reading.lock().await;
        let epoch = self.control.epoch();
        let own_epoch = limit.epoch(epoch);
        if let Some(published) = limit.current(epoch) {
            return Ok(published);
        }
        self.control.check_schema()?;
        let mut connection = self.connection();
        let name = || limit.name.to_string();
        let read = scripts::read_limit(&mut connection, &limit.name).await;
        let read = read.map_err(|error| limit.unreadable(Error::of_record(&limit.name, error)))?;
        // A newer daemon may have come meanwhile.
        self.control.check_schema()?;
        match read {
            // Its definition has ended, whether a daemon has removed it or not.
            Some(read) if read.expires.is_some_and(|end| end <= self.control.redis_now()) => {
                Err(Error::UnknownLimit { limit: name() })
            }
            Some(read) => {
                if read.limit.on_outage == Some(OnOutage::Local) {
                    self.control.use_local();
                }
                let now = self.control.stored_time().earliest(self.clock.now());
                let published = Published::new(read, connection.namespace(), own_epoch)
                    .after(limit.last().as_deref(), now);
                let published = Arc::new(published);
                limit.set(published.clone(), self.plans.has_assigned(&limit.name));
                // Only now: a poll forgets the ends of limits that are not in place yet.
                if let Some(end) = published.expires {
                    self.limits.note_end(end);
                }
                Ok(published)
            }
            None => match scripts::generation(&mut connection).await.map_err(Error::redis)? {
                Some(_) => match scripts::is_registered(&mut connection, &limit.name).await {
                    Ok(true) => Err(Error::LimitLost { limit: name() }),
                    Ok(false) => Err(Error::UnknownLimit { limit: name() }),
                    Err(error) => Err(Error::redis(error)),
                },
                None => {
                    let namespace = connection.namespace().to_string();
                    Err(Error::NothingPublished { limit: name(), namespace })
                }
            },
        }
    }

    /// The supply of tokens of a bucket of the limit `name`, if it is known without Redis and the same for each.
    #[cfg(feature = "tower")]
    pub(crate) fn supply(&self, name: &str) -> Option<Supply> {
        let published = self.limits.find(name)?.current(self.control.epoch())?;
        published.limit.parts.is_empty().then_some(published.limit.terms.supply)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let batch = self.take_prefetched();
        if !batch.is_empty() {
            let (connection, deadline, clock) = (self.connection(), self.deadline, self.clock.clone());
            self.runtime
                .spawn(async move { put_back::put_back_all(batch, &connection, deadline, &clock).await });
        }
        #[cfg(feature = "metrics")]
        counts::emit(&self.limits);
        // A Redis that does not reply is not waited for, and its counts are lost. No one reads the counts of a test.
        if !self.clock.is_manual() && self.control.newer_schema().is_none() && !self.breakers.any_in_doubt() {
            let (connection, namespace) = (&self.connection, self.connection.namespace());
            counts::hand_over_at_end(&self.limits, connection, &self.url, namespace, self.deadline);
        }
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
