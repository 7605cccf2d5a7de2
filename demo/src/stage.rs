//! Everything the show starts: a Redis of its own, the daemon, the workers.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{sleep, timeout};
use topup::{Client, Error};
use topup_embedded::RedisServer;
use topup_wire::connection::{self, Connection};

use crate::{
    cost::Cost,
    crew::Crew,
    daemon::Daemon,
    plan::{self, LIMITS, Limit, WORKERS},
    protocol::Report,
};

/// A daemon publishes within some 10 ms; this is for a machine that is busy with something else.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// What runs, but for the Redis, which outlives it. All is killed on drop.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) daemon: Daemon,
    pub(crate) crew: Crew,
    /// For the demo's own questions.
    connection: Connection,
}

// === impl Stage ===

impl Stage {
    /// Starts the daemon and the workers on `redis`. Nothing is asked of any limit yet.
    pub(crate) async fn set(redis: &RedisServer) -> anyhow::Result<Self> {
        let url = redis.url();
        let mut daemon = Daemon::start(redis.folder(), &plan::config(url, &LIMITS))?;
        tokio::select! {
            ready = timeout(READY_WITHIN, all_published(url)) => {
                let ready = ready.unwrap_or_else(|_| bail!("topupd published nothing within {READY_WITHIN:?}"));
                ready.map_err(|error| daemon.explain(error))?;
            }
            error = daemon.failure() => return Err(error),
        }
        let crew = Crew::start(WORKERS, url).await?;
        Ok(Self { daemon, crew, connection: connection::connect_lazily(url)? })
    }

    /// What Redis has done so far.
    pub(crate) async fn cost(&mut self) -> anyhow::Result<Cost> {
        Cost::ask(&mut self.connection).await
    }

    /// Ends the workers, then the daemon: the last reports, and what Redis had done when no worker asked any more.
    pub(crate) async fn end(self) -> anyhow::Result<(Vec<(usize, Report)>, Cost)> {
        let Self { daemon, crew, mut connection } = self;
        let last = crew.end().await?;
        let cost = Cost::ask(&mut connection).await?;
        daemon.end().await?;
        Ok((last, cost))
    }
}

async fn all_published(url: &str) -> anyhow::Result<()> {
    let topup = Client::connect(url).await?;
    for bucket in LIMITS.iter().flat_map(Limit::buckets) {
        while let Err(error) = bucket.of(&topup).peek().await {
            match error {
                Error::UnknownLimit { .. } | Error::NothingPublished { .. } => {
                    sleep(Duration::from_millis(5)).await
                }
                other => return Err(other.into()),
            }
        }
    }
    Ok(())
}
