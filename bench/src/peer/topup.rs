//! topup, as its documentation says: what a limit's name gives is kept, the bucket of a key made of it anew for every take.

use std::time::Duration;

use topup::{Bucket, Client};

use super::{Contend, Names};
use crate::worker::Load;

/// Longer than its default: where thousands ask at once through one connection, what is late is to be measured as such.
const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Topup {
    leased: bool,
    limit: Bucket,
    /// Absent where one bucket serves all.
    names: Option<Names>,
}

// === impl Topup ===

impl Topup {
    pub(crate) async fn new(load: &Load, names: Names, leased: bool) -> anyhow::Result<Self> {
        let client = Client::builder().deadline(DEADLINE).connect(&load.redis).await?;
        let limit = client.limit(load.rule.limit(load.keys > 0, leased));
        Ok(Self { leased, limit, names: (load.keys > 0).then_some(names) })
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
            Some(names) => self.take(&self.limit.key(&names[key])).await,
            None => self.take(&self.limit).await,
        }
    }
}
