//! The making of a client from its settings.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use tokio::runtime::Handle as Runtime;
use topup_wire::{
    connection::{Connection, connect_lazily, is_transient},
    limit::OnOutage,
    namespace::InNamespace,
    pipeline::Pipelines,
};

use super::Builder;
#[cfg(feature = "metrics")]
use crate::counts;
use crate::{
    client::Client,
    error::Error,
    shell::{
        BucketCache, Handle, Shared,
        breakers::Breakers,
        clock::{Clock, micros},
        control::Control,
        dispatch::RoundTrip,
        expiry::{self, ExpiryQueue},
        local_buckets::LocalBuckets,
        module::Module,
        put_back, timers,
    },
};

/// First and longest pause between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

// === impl Builder ===

impl Builder {
    /// Connects to the Redis at `url`, as [`Client::connect`] does.
    ///
    /// # Errors
    /// The same as for [`Client::connect`], and [`Error::InvalidNamespace`].
    pub async fn connect(self, url: &str) -> Result<Client, Error> {
        let deadline = self.connect_timeout;
        let client = self.client(url)?;
        let (mut pause, mut last) = (BACKOFF.0, Error::DeadlineExceeded { deadline });
        let first = async {
            loop {
                let Err(error) = client.first_poll().await else { return Ok(()) };
                if !is_transient(&error) {
                    return Err(Error::redis(error));
                }
                last = Error::redis(error);
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(BACKOFF.1);
            }
        };
        match tokio::time::timeout(deadline, first).await {
            Ok(result) => result?,
            Err(_) => return Err(last),
        }
        client.start_polls();
        Ok(client)
    }

    /// A client that connects in the background, as [`Client::connect_lazy`] does.
    ///
    /// # Errors
    /// The same as for [`Client::connect_lazy`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect_lazy(self, url: &str) -> Result<Client, Error> {
        let client = self.client(url)?;
        client.start_polls();
        Ok(client)
    }

    fn client(self, url: &str) -> Result<Client, Error> {
        #[cfg(feature = "tls")]
        let url = &self.tls_files.iter().fold(url.to_owned(), |url, (name, path)| {
            topup_wire::connection::with_tls_file(&url, name, path)
        });
        let connection = connect_lazily(url).map_err(Error::redis)?;
        self.client_of(connection, Clock::start(), url)
    }

    /// A client of a Redis in memory, by the clock of a test.
    #[cfg(feature = "testing")]
    pub(crate) fn connect_in_memory(self, connection: Connection, clock: Clock) -> Result<Client, Error> {
        let client = self.client_of(connection, clock, "")?;
        client.start_polls();
        Ok(client)
    }

    fn client_of(self, connection: Connection, clock: Clock, url: &str) -> Result<Client, Error> {
        let namespace = self.namespace.map(|namespace| namespace.parse()).transpose()?;
        let namespace = namespace.unwrap_or_else(|| connection.namespace());
        let connection = connection.in_namespace(namespace);
        #[cfg(feature = "metrics")]
        counts::describe();
        let control = Arc::new(Control::default());
        if self.on_outage == Some(OnOutage::Local) {
            control.use_local();
        }
        // The Redis of a test, in memory, has nothing to search.
        let expiring = if clock.is_manual() { 0 } else { self.cached_buckets };
        let shared = Arc::new(Shared {
            clock: Arc::new(clock),
            pipelines: Pipelines::beside(&connection),
            connection,
            buckets: BucketCache::new(self.cached_buckets),
            limits: Arc::default(),
            control,
            deadline: self.deadline,
            deadline_micros: micros(self.deadline),
            round_trip: RoundTrip::default(),
            timers: Arc::default(),
            put_backs: Arc::default(),
            expiry_queue: Arc::new(ExpiryQueue::new(expiring)),
            outages: Arc::default(),
            on_outage: self.on_outage,
            breakers: Breakers::default(),
            local_buckets: LocalBuckets::default(),
            url: url.to_owned(),
            pauses: Arc::default(),
            plans: Arc::default(),
            buckets_are_split: AtomicBool::new(false),
            wanted_in_order: AtomicU64::new(0),
            module: Module::default(),
            permits: Arc::default(),
            runtime: Runtime::current(),
        });
        timers::start(&shared);
        put_back::start(&shared);
        expiry::start(&shared);
        Ok(Client::of(Handle::of(shared)))
    }
}
