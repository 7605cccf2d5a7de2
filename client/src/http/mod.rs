//! Layers for HTTP: [`RateLimitLayer`] for incoming requests, [`WaitLayer`] for outgoing ones.
//!
//! They fit any server or client that is built on `http` 1 and tower: axum, tonic, hyper, reqwest. With the features `axum`
//! and `tonic`, peer addresses are found where these servers put them. For other servers, insert a [`Peer`](key::Peer) into
//! the request's extensions.
//!
//! `docs/http.md` has the headers, the keys and the outage policy on one page.
//!
//! ```no_run
//! use topup::http::{RateLimitLayer, Rule, key};
//!
//! # fn example(topup: topup::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let proxies = key::Proxies::networks(["10.0.0.0/8"])?;
//! let layer = RateLimitLayer::new(&topup)
//!     .limit("api") // one bucket for all requests
//!     .limit(Rule::of("ip").key(key::client_ip(proxies)))
//!     .limit(Rule::of("user").key(key::header("x-api-key")).message("buy the larger plan"));
//! # Ok(())
//! # }
//! ```

pub mod key;

mod future;
mod headers;
mod layer;
mod outcome;
mod outgoing;
mod permits;
mod problem;
mod rejection;
mod respond;
mod rule;
mod settings;

pub use future::ResponseFuture;
pub use headers::Headers;
pub use layer::{RateLimit, RateLimitLayer};
pub use outcome::Outcome;
pub use outgoing::{CallError, OutgoingKey, OutgoingRequest, OutgoingResponse, PerHost, Wait, WaitLayer};
pub use permits::{PermitBody, PermitLayer, Permitted};
pub use rejection::Rejection;
pub use respond::ResponseBody;
pub use rule::Rule;

/// A service behind one of the layers.
#[derive(Clone, Debug)]
pub struct Limited<S, L> {
    inner: S,
    layer: L,
}

// === impl Limited ===

impl<S, L: Clone> Limited<S, L> {
    fn new(inner: S, layer: &L) -> Self {
        Self { inner, layer: layer.clone() }
    }
}

impl<S: Clone, L: Clone> Limited<S, L> {
    /// The service that has been polled ready, and the layer. A clone of the service, which is not ready, takes its place.
    fn take_ready(&mut self) -> (S, L) {
        let clone = self.inner.clone();
        (std::mem::replace(&mut self.inner, clone), self.layer.clone())
    }
}
