//! Limits, a Redis in memory and a clock.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::{Handle, RuntimeFlavor};
use topup_wire::{
    connection::connect_in_memory,
    in_memory::InMemoryRedis,
    limit::{CodeTerms as Terms, LimitName},
    namespace::Namespace,
};

use super::{daemon::Daemon, spec::Spec};
use crate::{
    builder::Builder,
    client::Client,
    error::Error,
    shell::{
        clock::{Clock, micros},
        manual_clock::{ManualClock, Precision},
    },
};

/// Redis `TIME` at the start, in µs: 2026-01-01, so that every run is the same.
const BEGAN: u64 = 1_767_225_600_000_000;
/// Time within which every client has asked what is published.
const POLL: Duration = Duration::from_millis(250);
/// Turns of all tasks in which nothing happens, before the clock moves on.
const QUIET: u32 = 16;
/// Most turns at one instant. Tasks that never stop asking stop the clock no longer.
const MOST_TURNS: u32 = 100_000;
/// The same on several threads, where a turn is a ms.
const QUIET_MS: u32 = 3;
const MOST_MS: u32 = 1_000;

/// Limits, a Redis in memory and a clock that stands still unless [`advance`](Self::advance) moves it.
///
/// Cheap to clone. Clones are the same. [The module](super) has examples.
#[derive(Clone)]
pub struct Topup(Arc<Shared>);

/// The limits of a [`Topup`] that is about to start: from [`Topup::new`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is limited before the start"]
pub struct Start {
    limits: Vec<(String, Terms)>,
}

struct Shared {
    redis: InMemoryRedis,
    clock: Arc<ManualClock>,
    daemon: Mutex<Daemon>,
    client: Client,
    /// One move of the clock after the other.
    moves: tokio::sync::Mutex<()>,
}

// === impl Start ===

impl Start {
    /// Adds a limit, as `[limit.name]` in the config of the daemon.
    pub fn limit(mut self, name: impl Into<String>, limit: Terms) -> Self {
        self.limits.push((name.into(), limit));
        self
    }

    /// Publishes the limits, and connects a client.
    ///
    /// # Errors
    /// [`Error::InvalidLimit`] for a limit that cannot be, or that is named twice.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(self) -> Result<Topup, Error> {
        let mut limits = BTreeMap::new();
        for (name, limit) in self.limits {
            let (parsed, spec) = checked(&name, &limit)?;
            if limits.insert(parsed, spec).is_some() {
                return Err(Error::InvalidLimit { limit: name, problem: "named twice".to_owned() });
            }
        }
        let redis = InMemoryRedis::new(BEGAN);
        let daemon =
            Daemon::start(redis.direct(Namespace::default()), limits, BEGAN).map_err(Error::redis)?;
        let clock = Arc::new(ManualClock::default());
        let client = connect(Client::builder(), &redis, &clock)?;
        let (daemon, moves) = (Mutex::new(daemon), tokio::sync::Mutex::default());
        Ok(Topup(Arc::new(Shared { redis, clock, daemon, client, moves })))
    }
}

// === impl Topup ===

impl Topup {
    /// A start without limits yet.
    #[allow(clippy::new_ret_no_self, reason = "a Topup has limits, and those come first")]
    pub fn new() -> Start {
        Start::default()
    }

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

    /// The same, over connections that take time.
    ///
    /// # Errors
    /// As [`client_of`](Self::client_of).
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn client_by(&self, builder: Builder, way: Arc<topup_wire::in_memory::Way>) -> Result<Client, Error> {
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

    /// Moves the clock by `duration`, in whole µs. It stops at each instant that something waits for, and lets all tasks
    /// run there. When it returns, everything that was due has happened.
    pub async fn advance(&self, duration: Duration) {
        let _moving = self.0.moves.lock().await;
        self.settle().await;
        let from = self.0.redis.now();
        let target = from.saturating_add(micros(duration));
        loop {
            let redis = &self.0.redis;
            let stops =
                [self.0.clock.next().map(|at| at.saturating_add(BEGAN)), self.daemon().next(), redis.next()];
            let now = self.0.redis.now();
            let next = stops.into_iter().flatten().min().filter(|at| *at < target);
            let at = next.unwrap_or(target).max(now);
            self.0.redis.set_now(at);
            self.0.clock.set(at - BEGAN);
            if self.0.redis.deliver() {
                self.settle().await;
            }
            if !self.0.redis.is_away() {
                // The Redis in memory refuses nothing that the daemon asks.
                let ran = self.daemon().run(at);
                debug_assert!(ran.is_ok(), "{ran:?}");
            }
            for precision in [Precision::Coarse, Precision::Exact] {
                if self.0.clock.wake(precision) {
                    self.settle().await;
                }
            }
            if next.is_none() {
                return;
            }
        }
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

    /// Lets all tasks run until nothing more happens.
    async fn settle(&self) {
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let (enough, most) = if is_alone { (QUIET, MOST_TURNS) } else { (QUIET_MS, MOST_MS) };
        let activity = || self.0.clock.activity().wrapping_add(self.0.redis.commands());
        let (mut quiet, mut before) = (0, activity());
        for _ in 0..most {
            if is_alone {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let now = activity();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            if quiet >= enough {
                return;
            }
        }
    }

    fn daemon(&self) -> MutexGuard<'_, Daemon> {
        self.0.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Topup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topup").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}

fn checked(name: &str, limit: &Terms) -> Result<(LimitName, Spec), Error> {
    let parsed: LimitName = name.parse()?;
    let limit = limit.test_limit(parsed);
    let limit = limit.map_err(|problem| Error::InvalidLimit { limit: name.to_owned(), problem })?;
    Ok((parsed, Spec(limit)))
}

fn connect(builder: Builder, redis: &InMemoryRedis, clock: &Arc<ManualClock>) -> Result<Client, Error> {
    builder.connect_in_memory(connect_in_memory(redis), Clock::of_test(clock.clone()))
}
