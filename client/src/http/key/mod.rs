//! Key extractors: from a request to the key of its bucket.
//!
//! A sender must not be able to choose its key: with a new key for each request, it finds a full bucket each time.
//! [`peer_ip`] and [`client_ip`] therefore read no header of an untrusted sender. [`bearer_subject`] trusts only the
//! authenticator in front. [`header`] is for a header that a gateway has checked or written.

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

/// The choice of the bucket for an incoming request. A closure `Fn(&Parts) -> Option<String>` is a key extractor.
pub trait KeyExtractor: Send + Sync + 'static {
    /// The key of the request's bucket; `None` if the limit does not apply to the request.
    ///
    /// # Errors
    /// [`NoKey`] if the request names no key. The layer rejects such a request.
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey>;

    /// Uses `other` for requests that name no key here.
    fn or<Other: KeyExtractor>(self, other: Other) -> Or<Self, Other>
    where
        Self: Sized,
    {
        Or(self, other)
    }

    /// Passes requests without a key. A sender that leaves the key out is not limited: use it beside another limit of the
    /// same layer.
    fn optional(self) -> Optional<Self>
    where
        Self: Sized,
    {
        Optional(self)
    }
}

/// The error of a request without a key: status and message of its rejection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoKey {
    status: StatusCode,
    message: Cow<'static, str>,
}

/// The extractor from [`KeyExtractor::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<One, Other>(One, Other);

/// The extractor from [`KeyExtractor::optional`].
#[derive(Clone, Copy, Debug)]
pub struct Optional<One>(One);

// === impl NoKey ===

impl NoKey {
    /// Rejects the request with this status and message.
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
            // A mistake of the server's own must not let the request pass.
            Err(NoKey { status, .. }) if !status.is_server_error() => Ok(None),
            result => result,
        }
    }
}
