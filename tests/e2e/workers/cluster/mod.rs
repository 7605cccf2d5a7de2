//! The same on a Redis Cluster.

mod changes;
mod defined;
mod expiry;
mod failover;
mod moving;
mod namespaces;
mod parts;
mod spread;
mod urls;

use topup::{Bucket, Client};
use topup_tests::{Cluster, Daemon};

use super::fixture::{patient, ready};

/// A cluster with the daemon that serves it, and a client of its own.
struct Fixture {
    cluster: Cluster,
    daemon: Daemon,
    topup: Client,
}

// === impl Fixture ===

impl Fixture {
    /// Three masters, a daemon with this configuration, ready, and a client that waits long for answers.
    async fn set(config: &str) -> Self {
        Self::on(Cluster::start(3).await, config).await
    }

    /// The same on a cluster of the test's choice.
    async fn on(cluster: Cluster, config: &str) -> Self {
        // Told of different nodes, to find the same.
        let daemon = ready(config, &cluster.masters()[1].redis).await;
        let topup = patient(cluster.url()).await;
        Self { cluster, daemon, topup }
    }

    fn bucket(&self, limit: &str) -> Bucket {
        self.topup.limit(limit)
    }

    /// The keys of buckets there are.
    async fn bucket_keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for pattern in ["*}:?:*", "*}:due", "*}:former"] {
            keys.extend(self.cluster.keys(pattern).await);
        }
        keys
    }
}
