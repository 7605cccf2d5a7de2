//! topup, as a worker uses it: the handle of a bucket made anew for every take.

use std::time::Duration;

use topup::Client;

use super::{Contend, Names};
use crate::worker::Load;

/// Longer than its default: where thousands ask at once through one connection, what is late is to be measured as such.
const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Topup {
    client: Client,
    limit: String,
    leased: bool,
    /// Absent where one bucket serves all.
    names: Option<Names>,
}

// === impl Topup ===

impl Topup {
    pub(crate) async fn new(load: &Load, names: Names, leased: bool) -> anyhow::Result<Self> {
        Ok(Self {
            client: Client::builder().deadline(DEADLINE).connect(&load.redis).await?,
            leased,
            limit: load.rule.limit(load.keys > 0, leased),
            names: (load.keys > 0).then_some(names),
        })
    }
}

impl Contend for Topup {
    async fn decide(&self, key: usize) -> anyhow::Result<bool> {
        let limit = self.client.limit(self.limit.as_str());
        let bucket = match &self.names {
            Some(names) => limit.key(names[key].as_str()),
            None => limit,
        };
        // As its documentation says of limits with a lease: what needs no Redis needs no task.
        if self.leased
            && let Some(decision) = bucket.try_take()
        {
            return Ok(decision.is_allowed());
        }
        Ok(bucket.take(1).await?.is_allowed())
    }
}
