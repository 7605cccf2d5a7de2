//! Whose request it is: from a request to the key of a bucket.
//!
//! A key must not be for the sender to choose, or nobody is limited: who changes an address or a name with every request
//! finds a full bucket each time. So [`peer_ip`] and [`client_ip`] believe no header of a stranger,
//! [`bearer_subject`] believes only who has authenticated the request, and [`header`] is for a header that something in
//! front has checked or written.

use std::borrow::Cow;

use http::{StatusCode, request::Parts};

mod address;
mod forwarded;
mod header;
mod proxies;
#[cfg(feature = "axum")]
mod route;
mod subject;

pub use address::{ClientIp, Peer, client_ip, peer_ip};
pub use header::{Header, header};
pub use proxies::{NetworkError, Proxies};
#[cfg(feature = "axum")]
pub use route::{Route, route};
pub use subject::{BearerSubject, Subject, UnverifiedJwtSubject, bearer_subject, unverified_jwt_subject};

/// Says whose bucket a request takes from. A closure `Fn(&Parts) -> Option<String>` is one.
pub trait KeyExtractor: Send + Sync + 'static {
    /// The key of the request's bucket; `None` when the limit is none for this request.
    ///
    /// # Errors
    /// [`NoKey`] when the request does not say: it is refused.
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey>;

    /// What `other` says where this has no key.
    fn or<Other: KeyExtractor>(self, other: Other) -> Or<Self, Other>
    where
        Self: Sized,
    {
        Or(self, other)
    }

    /// Lets requests without a key pass unlimited. Whoever may leave the key out is not limited: for requests that
    /// another limit of the same layer holds.
    fn optional(self) -> Optional<Self>
    where
        Self: Sized,
    {
        Optional(self)
    }
}

/// A request that does not say whose it is, and what it is answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoKey {
    status: StatusCode,
    message: Cow<'static, str>,
}

/// From [`KeyExtractor::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<One, Other>(One, Other);

/// From [`KeyExtractor::optional`].
#[derive(Clone, Copy, Debug)]
pub struct Optional<One>(One);

// === impl NoKey ===

impl NoKey {
    /// Has the request answered with this status and message.
    pub fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn into_parts(self) -> (StatusCode, Cow<'static, str>) {
        (self.status, self.message)
    }
}

// === impl KeyExtractor ===

impl<F: Fn(&Parts) -> Option<String> + Send + Sync + 'static> KeyExtractor for F {
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey> {
        Ok(self(request))
    }
}

impl<One: KeyExtractor, Other: KeyExtractor> KeyExtractor for Or<One, Other> {
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey> {
        self.0.key(request).or_else(|_| self.1.key(request))
    }
}

impl<One: KeyExtractor> KeyExtractor for Optional<One> {
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey> {
        match self.0.key(request) {
            // The server's own mistake is nothing to be let pass for.
            Err(NoKey { status, .. }) if !status.is_server_error() => Ok(None),
            told => told,
        }
    }
}
