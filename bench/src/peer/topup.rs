//! topup, as a worker uses it: the one bucket of a limit kept, that of a key made anew for every take.

use std::time::Duration;

use topup::{Bucket, Client};

use super::{Contend, Names};
use crate::worker::Load;

/// Longer than its default: where thousands ask at once through one connection, what is late is to be measured as such.
const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Topup {
    client: Client,
    limit: String,
    leased: bool,
    /// The bucket that serves all.
    one: Bucket,
    /// Absent where it does.
    names: Option<Names>,
}

// === impl Topup ===

impl Topup {
    pub(crate) async fn new(load: &Load, names: Names, leased: bool) -> anyhow::Result<Self> {
        let client = Client::builder().deadline(DEADLINE).connect(&load.redis).await?;
        let limit = load.rule.limit(load.keys > 0, leased);
        let one = client.limit(limit.as_str());
        Ok(Self { client, leased, limit, one, names: (load.keys > 0).then_some(names) })
    }

    async fn take(&self, bucket: &Bucket) -> anyhow::Result<bool> {
        // As its documentation says of limits with a lease: what needs no Redis needs no task.
        if self.leased
            && let Some(decision) = bucket.try_take()
        {
            return Ok(decision.is_allowed());
        }
        Ok(bucket.take(1).await?.is_allowed())
    }
}

impl Contend for Topup {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        match &self.names {
            Some(names) => self.take(&self.client.limit(self.limit.as_str()).key(names[key].as_str())).await,
            None => self.take(&self.one).await,
        }
    }
}
