//! The URL of a Redis.

use std::{fmt, str::FromStr};

use topup_wire::connection;

/// A Redis URL that this build can connect to: `redis://` or `rediss://`, also of several nodes of a cluster, or
/// `unix://`. Displayed without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

/// A text that is no [`RedisUrl`]. The message does not repeat the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisUrlError {
    /// Another scheme, or none.
    #[error("not a Redis URL: write \"redis://127.0.0.1:6379\" or \"unix:///run/redis/redis.sock\"")]
    Scheme,
    /// A mistake behind the scheme.
    #[error(
        "not a Redis URL ({reason}): write redis://user:password@host:port/database or unix:///path?db=database"
    )]
    Form {
        /// The mistake.
        reason: String,
    },
}

// === impl RedisUrl ===

impl RedisUrl {
    /// The URL with its password, for connections only.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same URL with those `files` of TLS that it does not name itself: pairs of parameter and path.
    #[must_use]
    pub fn with_tls_files(&self, files: &[(&'static str, String)]) -> Self {
        let missing = |(name, _): &&(&str, String)| !self.0.contains(&format!("{name}="));
        let files = files.iter().filter(|_| self.0.starts_with("rediss://")).filter(missing);
        Self(files.fold(self.0.clone(), |url, (name, path)| connection::with_tls_file(&url, name, path)))
    }
}

impl Default for RedisUrl {
    fn default() -> Self {
        Self("redis://127.0.0.1:6379".to_owned())
    }
}

impl FromStr for RedisUrl {
    type Err = RedisUrlError;

    fn from_str(text: &str) -> Result<Self, RedisUrlError> {
        match text.split_once("://") {
            Some(("redis" | "rediss" | "unix" | "redis+unix", _)) => {}
            _ => return Err(RedisUrlError::Scheme),
        }
        match connection::check(text) {
            Ok(()) => Ok(Self(text.to_owned())),
            Err(error) => {
                let reason = error.to_string();
                Err(RedisUrlError::Form { reason: reason.split(" - ").next().unwrap_or_default().to_owned() })
            }
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&connection::redacted(&self.0))
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}
