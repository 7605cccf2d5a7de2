//! The Redis: the user's own, or a private one.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use redis::Cmd;
use tokio::time::timeout;
use topup_embedded::RedisServer;
use topup_measure::Meter;
use topup_wire::connection::{Connection, connect_lazily};

use super::keys;
use crate::{clock::now, limiter::Contender};

/// The first answer of a Redis that is there.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Questions for the time, of which the one answered fastest counts.
const LOOKS: u32 = 25;

/// A Redis to compare on.
#[derive(Debug)]
pub struct Server {
    url: String,
    connection: Link,
    /// Absent where it is the user's.
    private: Option<RedisServer>,
}

/// A connection, which tells nothing of itself.
struct Link(Connection);

// === impl Server ===

impl Server {
    /// A private one, gone with this.
    ///
    /// # Errors
    /// When there is no redis-server.
    pub fn private() -> anyhow::Result<Self> {
        let server = RedisServer::start()?;
        let url = server.url().to_owned();
        Ok(Self { connection: Link(connect_lazily(&url)?), url, private: Some(server) })
    }

    /// The one at `url`, if nothing is in it, or `shared` says that this does not matter.
    ///
    /// # Errors
    /// When it does not answer, holds anything, or serves a topup already.
    pub async fn at(url: &str, shared: bool) -> anyhow::Result<Self> {
        let mut connection = connect_lazily(url)?;
        let look = async {
            let used = keys::is_in_use(&mut connection).await?;
            anyhow::Ok((used, keys::count(&mut connection).await?))
        };
        let (used, count) = timeout(ANSWER_WITHIN, look).await.context("Redis does not answer")??;
        if used {
            bail!(
                "this database serves a topup already, whose limits another daemon would remove: \
                 name another database, such as redis://host/9"
            );
        }
        ensure!(
            shared || count == 0,
            "this database holds {count} keys: name an empty one, such as redis://host/9, or say --shared \
             (nothing of yours is touched, but figures are of your traffic too)"
        );
        Ok(Self { connection: Link(connection), url: url.to_owned(), private: None })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is this comparison's own.
    pub const fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// Its version.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn version(&mut self) -> anyhow::Result<String> {
        let info: String = Cmd::new().arg("INFO").arg("server").query_async(&mut self.connection.0).await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or("of unknown version").trim().to_owned())
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn meter(&mut self) -> anyhow::Result<Meter> {
        Meter::read(&mut self.connection.0).await
    }

    /// Bytes that the buckets of `contender` take.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn bytes(&mut self, contender: &Contender) -> anyhow::Result<u64> {
        Ok(keys::bytes(&mut self.connection.0, contender).await?)
    }

    /// Removes what comparisons have written.
    pub(super) async fn clear(&mut self) -> anyhow::Result<()> {
        Ok(keys::remove_all(&mut self.connection.0).await?)
    }

    /// Stops it and starts it anew, empty.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        let Some(mut server) = self.private.take() else { bail!("only a private Redis is restarted") };
        // A moment in which this thread does nothing else: workers and daemons are processes of their own.
        let (server, restarted) = tokio::task::spawn_blocking(move || {
            let restarted = server.restart();
            (server, restarted)
        })
        .await?;
        self.private = Some(server);
        restarted?;
        self.connection = Link(connect_lazily(&self.url)?);
        Ok(())
    }

    /// What to add to this machine's instants to have Redis's, in µs.
    pub(super) async fn clock_offset(&mut self) -> anyhow::Result<i64> {
        let mut best = (u64::MAX, 0);
        for _ in 0..LOOKS {
            let sent = now();
            let (seconds, micros): (u64, u64) =
                Cmd::new().arg("TIME").query_async(&mut self.connection.0).await?;
            let way = now() - sent;
            let redis = seconds * 1_000_000 + micros;
            best = best.min((way, redis.cast_signed() - (sent + way / 2).cast_signed()));
        }
        Ok(best.1)
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}
