//! The URL of a Redis.

use std::{fmt, str::FromStr};

use super::Config;
use topup_wire::{
    connection::{self, ParameterError},
    namespace::Namespace,
};

/// A Redis URL that this build can connect to, and the namespace of the keys there. The URL is `redis://` or `rediss://`,
/// also of several nodes of a cluster, `redis+sentinel://`, `rediss+sentinel://`, or `unix://`. Displayed without its
/// password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    url: String,
    namespace: Option<Namespace>,
}

/// A text that is no [`RedisUrl`]. The message does not repeat the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisUrlError {
    /// Another scheme, or none.
    #[error("not a Redis URL: write \"redis://127.0.0.1:6379\" or \"unix:///run/redis/redis.sock\"")]
    Scheme,
    /// A wrong parameter behind the question mark.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// Another mistake behind the scheme.
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
        &self.url
    }

    /// The namespace of the keys there.
    pub fn namespace(&self) -> Namespace {
        self.namespace.unwrap_or_default()
    }

    /// The namespace that was named: by the URL, or beside it.
    pub const fn named_namespace(&self) -> Option<Namespace> {
        self.namespace
    }

    /// The same Redis. The `namespace` counts unless one is named already.
    #[must_use]
    pub fn or_namespace(self, namespace: Option<Namespace>) -> Self {
        Self { namespace: self.namespace.or(namespace), ..self }
    }

    /// The same Redis. The `namespace`, if there is one, replaces another.
    #[must_use]
    pub fn with_namespace(self, namespace: Option<Namespace>) -> Self {
        Self { namespace: namespace.or(self.namespace), ..self }
    }

    /// The same Redis, with the namespace and the files of TLS that `config` names and the URL does not.
    #[must_use]
    pub fn or_settings_of(self, config: &Config) -> Self {
        let missing = |(name, _): &&(&str, String)| !self.url.contains(&format!("{name}="));
        let files = config.tls_files.iter().filter(|_| self.url.starts_with("rediss")).filter(missing);
        let url =
            files.fold(self.url.clone(), |url, (name, path)| connection::with_tls_file(&url, name, path));
        Self { url, ..self }.or_namespace(config.redis_url.named_namespace())
    }
}

impl Default for RedisUrl {
    fn default() -> Self {
        Self { url: "redis://127.0.0.1:6379".to_owned(), namespace: None }
    }
}

impl FromStr for RedisUrl {
    type Err = RedisUrlError;

    fn from_str(text: &str) -> Result<Self, RedisUrlError> {
        match text.split_once("://") {
            Some(("redis" | "rediss" | "unix" | "redis+unix" | "redis+sentinel" | "rediss+sentinel", _)) => {}
            _ => return Err(RedisUrlError::Scheme),
        }
        let (_, namespace) = connection::split_namespace(text)?;
        match connection::check(text) {
            Ok(()) => Ok(Self { url: text.to_owned(), namespace }),
            Err(error) => {
                let reason = error.to_string();
                Err(RedisUrlError::Form { reason: reason.split(" - ").next().unwrap_or_default().to_owned() })
            }
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = Some(self.namespace()).filter(|namespace| !namespace.is_default());
        let namespace = namespace.map(|namespace| format!("?namespace={namespace}")).unwrap_or_default();
        f.pad(&format!("{}{namespace}", connection::redacted(&self.url)))
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}
