//! Claims: which config holds which published limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
    str::FromStr,
};

use crate::{
    fnv::fnv_1a,
    limit::{LimitName, NameError},
};

/// The name of a config among all that publish to one Redis. It owns the limits that it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(String);

/// A text that is not the name of a config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a config's name: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")]
pub struct OwnerError(String);

/// The claim of a config to a limit. It stays until the config drops the limit, whether a daemon is alive or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Fingerprint of the limit's terms and of all its other keys.
    pub fingerprint: Fingerprint,
    /// The instant at which a daemon loaded these terms, in µs of Redis `TIME`.
    pub loaded: u64,
}

/// A limit in the config of a live daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredLimit {
    /// Fingerprint of its terms there.
    pub fingerprint: Fingerprint,
    /// Whether that config holds it with these terms. If not, another config does, or a newer version of that one.
    pub held: bool,
}

/// The config of a live daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// Its name.
    pub owner: Owner,
    /// The instant at which it was loaded, in µs of Redis `TIME`.
    pub loaded: u64,
    /// Its limits.
    pub limits: BTreeMap<LimitName, DeclaredLimit>,
}

/// The definition of a limit by code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its owner. It may have the name of a config, and is none.
    pub owner: Owner,
    /// Its end unless it is renewed, in µs of Redis `TIME`.
    pub until: u64,
}

/// All claims, and the configs of all live daemons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The instant of Redis, in µs.
    pub now: u64,
    /// Number of the last change of the claims; empty if there has been none.
    pub version: String,
    /// The claims to each limit.
    pub claims: BTreeMap<LimitName, BTreeMap<Owner, Claim>>,
    /// The instant of each config's last heartbeat, in µs of Redis `TIME`.
    pub last_alive: BTreeMap<Owner, u64>,
    /// Configs with a live daemon, whether it has claimed its limits or not yet.
    pub alive: BTreeSet<Owner>,
    /// Configs of live daemons that have claimed their limits, by the daemons' ids.
    pub daemons: BTreeMap<String, Declaration>,
    /// Limits that code has defined. No config claims them.
    pub defined: BTreeMap<LimitName, Definition>,
    /// Published limits.
    pub registered: BTreeSet<LimitName>,
}

/// A hash of a limit's keys, or of a whole config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

// === impl Owner ===

impl Owner {
    /// The name of the config in the file at `path`, if the file gives none. Two hosts with the same file at the same
    /// path have one config.
    pub fn of_file(path: &Path) -> Self {
        Self(path.to_string_lossy().into_owned())
    }

    /// A name as it stands in Redis.
    pub(crate) fn published(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Owner {
    type Err = OwnerError;

    fn from_str(text: &str) -> Result<Self, OwnerError> {
        // Paths have a slash. No name is therefore that of a file.
        let checked = text.parse::<LimitName>().map_err(|NameError(text)| OwnerError(text))?;
        Ok(Self(checked.to_string()))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path may have any character. A log line must stay one line.
        write!(f, "{}", self.0.escape_debug())
    }
}

// === impl Fingerprint ===

impl Fingerprint {
    /// The fingerprint of `text`.
    pub fn of(text: &str) -> Self {
        Self(fnv_1a(text))
    }
}

impl FromStr for Fingerprint {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

// === impl Ownership ===

impl Ownership {
    /// Live daemons of the config `owner`.
    pub fn daemons_of<'o>(&'o self, owner: &'o Owner) -> impl Iterator<Item = (&'o str, &'o Declaration)> {
        let daemons = self.daemons.iter().map(|(id, declared)| (id.as_str(), declared));
        daemons.filter(move |(_, declared)| declared.owner == *owner)
    }

    /// Whether a daemon of the config `owner` is alive.
    pub fn is_alive(&self, owner: &Owner) -> bool {
        self.alive.contains(owner)
    }

    /// The claims to the limit `name`. If Redis has lost them, the declarations of live daemons that hold the limit count.
    /// They count only then: a daemon that was suspended may still declare a claim that has ended meanwhile.
    pub fn claims_to(&self, name: &LimitName) -> BTreeMap<Owner, Claim> {
        if let Some(claims) = self.claims.get(name).filter(|claims| !claims.is_empty()) {
            return claims.clone();
        }
        let mut claims = BTreeMap::new();
        for declared in self.daemons.values() {
            if let Some(limit) = declared.limits.get(name).filter(|limit| limit.held) {
                let claim = Claim { fingerprint: limit.fingerprint, loaded: declared.loaded };
                claims.insert(declared.owner.clone(), claim);
            }
        }
        claims
    }
}
