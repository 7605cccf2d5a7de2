//! The start: limits that are published, and a client that is connected.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use topup_wire::{in_memory::InMemoryRedis, limit::CodeTerms as Terms, namespace::Namespace};

use super::{
    daemon::Daemon,
    topup::{BEGAN, Shared, Topup, checked, connect},
};
use crate::{client::Client, error::Error, shell::manual_clock::ManualClock};

/// The limits of a [`Topup`] that is about to start: from [`Topup::new`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is limited before the start"]
pub struct Start {
    limits: Vec<(String, Terms)>,
}

// === impl Topup ===

impl Topup {
    /// A start without limits yet.
    #[allow(clippy::new_ret_no_self, reason = "a Topup has limits, and those come first")]
    pub fn new() -> Start {
        Start::default()
    }
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
