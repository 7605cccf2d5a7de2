//! The making of a client.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::runtime::Handle as Runtime;
use topup_wire::{
    connection::{Connection, connect_lazily, is_transient},
    limit::OnOutage,
    namespace::InNamespace,
    pipeline::Pipelines,
};

#[cfg(feature = "metrics")]
use crate::counts;
use crate::{
    client::Client,
    error::Error,
    shell::{
        BucketCache, Handle, MOST_BUCKETS, Shared,
        breakers::Breakers,
        clock::{Clock, micros},
        control_poll::Control,
        dispatch::RoundTrip,
        local_buckets::LocalBuckets,
        module::Module,
        put_back, timers,
    },
};

/// The longest time that a call waits for Redis, unless set.
const DEADLINE: Duration = Duration::from_millis(250);
/// The longest time to the first reply of Redis, unless set. It includes the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// First and longest pause between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// Settings of a [`Client`], from [`Client::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    deadline: Duration,
    connect_timeout: Duration,
    cached_buckets: usize,
    namespace: Option<String>,
    on_outage: Option<OnOutage>,
    #[cfg(feature = "tls")]
    tls_files: Vec<(&'static str, String)>,
}

// === impl Client ===

impl Client {
    /// Connects to the Redis at `url`: `redis://[user:password@]host[:port][/db]` or `unix:///path[?db=n]`.
    ///
    /// A Redis Cluster is found by any of its nodes, or by several: `redis://[user:password@]host:port,host:port`.
    ///
    /// Teams that share a Redis have a namespace each, `topup` unless the URL names one: `redis://host?namespace=shop`.
    /// It has 1 to 32 of the characters `A-Z a-z 0-9 . _ -`.
    ///
    /// With the feature `tls`, `rediss://` connects by TLS. Its parameters `tls_ca`, `tls_cert` and `tls_key` name files in
    /// PEM: `rediss://host:port?tls_ca=/etc/topup/ca.pem`. They are read for each connection.
    ///
    /// # Errors
    /// A `url` of another form or with an unknown parameter, an error that does not pass, or no reply of Redis within 2 s.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().connect(url).await
    }

    /// A client for the Redis at `url` that connects in the background. While Redis is away, takes are decided by an
    /// [outage policy](OnOutage), or fail with a transient error.
    ///
    /// # Errors
    /// A `url` of another form or with an unknown parameter.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect_lazy(url: &str) -> Result<Self, Error> {
        Self::builder().connect_lazy(url)
    }

    /// Settings for a client: namespace, deadline and size of its memory.
    pub fn builder() -> Builder {
        Builder {
            deadline: DEADLINE,
            connect_timeout: CONNECT_TIMEOUT,
            cached_buckets: MOST_BUCKETS,
            namespace: None,
            on_outage: None,
            #[cfg(feature = "tls")]
            tls_files: Vec::new(),
        }
    }
}

// === impl Builder ===

impl Builder {
    /// The longest time that a call waits for Redis; 250 ms unless set.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The longest time that [`connect`](Self::connect) tries; 2 s unless set. It tries again with pauses of up to 250 ms.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// The outage policy for limits that have none of their own: without `on_outage` in their config, or not read since the
    /// client began. Unless set, takes of these limits end in a transient error.
    ///
    /// Under [`Local`](OnOutage::Local), takes of a limit that was never read are denied: its terms are not known.
    #[must_use]
    pub fn on_outage(mut self, on_outage: OnOutage) -> Self {
        self.on_outage = Some(on_outage);
        self
    }

    /// The number of buckets that the client remembers; 65,536 unless set. A bucket at rest takes about 150 bytes, one in
    /// use up to 400. The next take of a forgotten bucket costs Redis one native command more.
    #[must_use]
    pub fn cached_buckets(mut self, buckets: usize) -> Self {
        self.cached_buckets = buckets;
        self
    }

    /// The namespace of the limits, as `namespace` in the config of the daemon. It counts before that of the URL.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The file of the CA certificates, in PEM, that vouch for a server of a `rediss://` URL; those of the system unless
    /// set.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_ca(mut self, file: impl Into<String>) -> Self {
        self.tls_files.push(("tls_ca", file.into()));
        self
    }

    /// The files of the client's certificate and of its private key, in PEM, for a server that asks for one.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_cert(mut self, cert: impl Into<String>, key: impl Into<String>) -> Self {
        self.tls_files.extend([("tls_cert", cert.into()), ("tls_key", key.into())]);
        self
    }

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
            outages: Arc::default(),
            on_outage: self.on_outage,
            breakers: Breakers::default(),
            local_buckets: LocalBuckets::default(),
            url: url.to_owned(),
            pauses: Arc::default(),
            plans: Arc::default(),
            buckets_are_split: AtomicBool::new(false),
            module: Module::default(),
            permits: Arc::default(),
            runtime: Runtime::current(),
        });
        timers::start(&shared);
        put_back::start(&shared);
        Ok(Client::of(Handle::of(shared)))
    }
}
