//! The settings of a client.

mod connect;

use std::time::Duration;

use topup_wire::limit::OnOutage;

use crate::{client::Client, error::Error, shell::MOST_BUCKETS};

/// The longest time that a call waits for Redis, unless set.
const DEADLINE: Duration = Duration::from_millis(250);
/// The longest time to the first reply of Redis, unless set. It includes the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

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

    /// The number of buckets that the client remembers; 65,536 unless set. A bucket at rest takes about 160 bytes, one in
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
}
