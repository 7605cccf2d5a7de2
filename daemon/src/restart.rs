//! Settings that a daemon takes up when it starts, and never by a reload.

use std::fmt;

use topup_wire::claims::Owner;

use crate::config::{AdminConfig, RedisUrl};

/// The settings of a daemon that a reload does not change.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<'a> {
    /// The Redis; `None` if it cannot be told.
    pub url: Option<&'a RedisUrl>,
    /// The name of the config.
    pub owner: &'a Owner,
    /// The admin server.
    pub admin: Option<&'a AdminConfig>,
}

/// A changed setting that takes a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeedsRestart {
    /// `redis.url`. Until then, limits go to this one.
    Redis(RedisUrl),
    /// `name`. Until then, the config has this one.
    Name(Owner),
    /// `[admin]`.
    Admin,
}

/// The settings that differ between a running daemon and a config that it is to load.
pub fn needs_restart(running: Fixed<'_>, new: Fixed<'_>) -> Vec<NeedsRestart> {
    let mut changed = Vec::new();
    // A malformed override is reported at that restart.
    if let (Some(url), Some(new)) = (running.url, new.url)
        && url != new
    {
        changed.push(NeedsRestart::Redis(url.clone()));
    }
    if running.owner != new.owner {
        changed.push(NeedsRestart::Name(running.owner.clone()));
    }
    if running.admin != new.admin {
        changed.push(NeedsRestart::Admin);
    }
    changed
}

// === impl NeedsRestart ===

impl fmt::Display for NeedsRestart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(url) => {
                write!(f, "redis.url has changed: that takes a restart; until then the limits go to {url}")
            }
            Self::Name(owner) => {
                write!(f, "name has changed: that takes a restart; until then this is config {owner}")
            }
            Self::Admin => f.write_str("[admin] has changed: that takes a restart"),
        }
    }
}
