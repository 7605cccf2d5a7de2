//! Limits, a Redis in memory and a clock.

#[cfg(feature = "simulation")]
use std::sync::atomic::Ordering::Relaxed;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use topup_wire::{
    connection::connect_in_memory,
    in_memory::InMemoryRedis,
    limit::{CodeTerms as Terms, LimitName},
};

use super::{daemon::Daemon, spec::Spec};
use crate::{
    builder::Builder,
    client::Client,
    error::Error,
    shell::{clock::Clock, manual_clock::ManualClock},
};

/// Redis `TIME` at the start, in µs: 2026-01-01, so that every run is the same.
pub(super) const BEGAN: u64 = 1_767_225_600_000_000;
/// Time within which every client has asked what is published.
const POLL: Duration = Duration::from_millis(250);

/// Limits, a Redis in memory and a clock that stands still unless [`advance`](Self::advance) moves it.
///
/// Cheap to clone. Clones are the same. [The module](super) has examples.
#[derive(Clone)]
pub struct Topup(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) redis: InMemoryRedis,
    pub(super) clock: Arc<ManualClock>,
    pub(super) daemon: Mutex<Daemon>,
    pub(super) client: Client,
    /// One move of the clock after the other.
    pub(super) moves: tokio::sync::Mutex<()>,
}

// === impl Topup ===

impl Topup {
    /// The client, with the settings of [`Client::connect`]. Clones of one client share what it knows.
    pub fn client(&self) -> Client {
        self.0.client.clone()
    }

    /// Another client with its own settings, like that of another process.
    ///
    /// # Errors
    /// [`Error::InvalidNamespace`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn client_of(&self, builder: Builder) -> Result<Client, Error> {
        connect(builder, &self.0.redis, &self.0.clock)
    }

    /// The same, over connections that take time. From then on, all clients try first takes, as in production.
    ///
    /// # Errors
    /// As [`client_of`](Self::client_of).
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn client_by(&self, builder: Builder, way: Arc<topup_wire::in_memory::Way>) -> Result<Client, Error> {
        self.0.clock.has_first_takes.store(true, Relaxed);
        connect(builder, &self.0.redis.by(way), &self.0.clock)
    }

    /// The Redis in memory.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn redis(&self) -> &InMemoryRedis {
        &self.0.redis
    }

    /// The time for which the clock has been moved since the start.
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(self.0.redis.now() - BEGAN)
    }

    /// Has Redis refuse all connections, or takes them again. The buckets stay as they are. No tick, schedule or quota is
    /// carried out meanwhile. Clients ask every 100 ms of the clock whether Redis is back.
    pub fn set_outage(&self, is_away: bool) {
        self.0.redis.set_away(is_away);
    }

    /// Publishes other terms of a limit, or a new limit, as a reload of the daemon's config does. Tokens stay in the
    /// buckets.
    ///
    /// This takes 0.25 s of the clock, in which all clients learn of it. Clients have to know ahead of a change of a token
    /// bucket's capacity or rate, so such a change takes 1 s.
    ///
    /// # Errors
    /// [`Error::InvalidLimit`] for a limit that cannot be. Nothing has changed then.
    pub async fn change(&self, name: impl AsRef<str>, limit: Terms) -> Result<(), Error> {
        let (name, spec) = checked(name.as_ref(), &limit)?;
        let is_frozen = self.daemon().change(name, spec, self.0.redis.now()).map_err(Error::redis)?;
        if is_frozen {
            self.advance(topup_wire::scripts::FREEZE).await;
        }
        // The next poll of every client.
        self.advance(POLL).await;
        Ok(())
    }

    /// Tokens in the bucket of a limit, or of one of its keys. Tokens that a client has taken ahead do not count.
    ///
    /// # Errors
    /// [`Error::UnknownLimit`], or an invalid name or key.
    pub fn tokens<'k>(&self, limit: impl AsRef<str>, key: impl Into<Option<&'k str>>) -> Result<u64, Error> {
        let (limit, key) = (limit.as_ref(), key.into());
        let name: LimitName = limit.parse()?;
        if let Some(key) = key {
            topup_wire::limit::Key::new(key)?;
        }
        let peeked = self.daemon().peek(name, key.unwrap_or_default()).map_err(Error::redis)?;
        peeked.map(|settled| settled.tokens).ok_or_else(|| Error::UnknownLimit { limit: limit.to_owned() })
    }

    pub(super) fn daemon(&self) -> MutexGuard<'_, Daemon> {
        self.0.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Topup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topup").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}

pub(super) fn checked(name: &str, limit: &Terms) -> Result<(LimitName, Spec), Error> {
    let parsed: LimitName = name.parse()?;
    let limit = limit.test_limit(parsed);
    let limit = limit.map_err(|problem| Error::InvalidLimit { limit: name.to_owned(), problem })?;
    Ok((parsed, Spec(limit)))
}

pub(super) fn connect(
    builder: Builder,
    redis: &InMemoryRedis,
    clock: &Arc<ManualClock>,
) -> Result<Client, Error> {
    builder.connect_in_memory(connect_in_memory(redis), Clock::of_test(clock.clone()))
}
