//! The layer for requests that come in.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use http_body_util::Full;
use tower_layer::Layer;
use tower_service::Service;

use super::{Headers, Refusal, ResponseBody, ResponseFuture, Rule, respond::respond};
use crate::{
    admission::Admission, client::Client, denied::Denied, error::Error, joint::Joint, outage::OnError,
    take::Take,
};

type Respond = dyn Fn(&Parts, &Refusal) -> Response<Full<Bytes>> + Send + Sync;

/// Lets requests through as far as limits allow, and refuses the others with 429.
///
/// All the limits of one layer are one decision: none is taken from unless all allow.
#[derive(Clone, Debug)]
#[must_use = "a layer limits nothing until a service is built with it"]
pub struct RateLimitLayer(Arc<Settings>);

/// A service behind a [`RateLimitLayer`].
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    settings: Arc<Settings>,
}

/// What became of a request, in the extensions of its response. Of several layers, what the outermost says that asked
/// anything; but [`Undecided`](Self::Undecided) if one of them had to do without an answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The limits were asked: what they said.
    Decided(Joint),
    /// They could not be asked, and the layer did as it was told.
    Undecided(Error),
    /// None was for this request, or it did not say whose it is.
    NotAsked,
}

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) client: Client,
    rules: Vec<Rule>,
    on_error: OnError,
    pub(super) headers: Headers,
    pub(super) respond: Arc<Respond>,
}

// === impl RateLimitLayer ===

impl RateLimitLayer {
    /// A layer that asks `client`, and no limit yet.
    pub fn new(client: &Client) -> Self {
        Self(Arc::new(Settings {
            client: client.clone(),
            rules: Vec::new(),
            on_error: OnError::default(),
            headers: Headers::default(),
            respond: Arc::new(respond),
        }))
    }

    /// Asks this limit, too: the name of one, or a [`Rule`].
    pub fn limit(self, rule: impl Into<Rule>) -> Self {
        self.with(|settings| settings.rules.push(rule.into()))
    }

    /// What to do when Redis cannot decide; unless set, requests are let through. Either way [`Client::undecided`] counts
    /// it, the log (feature `tracing`) tells when it begins and ends, and the response's [`Outcome`] says it.
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|settings| settings.on_error = on_error)
    }

    /// Which headers responses get.
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|settings| settings.headers = headers)
    }

    /// Makes the responses of refused requests. `Retry-After` and the headers of the limits are added to it.
    pub fn respond_with(
        self,
        respond: impl Fn(&Parts, &Refusal) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.respond = Arc::new(respond))
    }

    fn with(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(Arc::make_mut(&mut self.0));
        self
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit { inner, settings: self.0.clone() }
    }
}

// === impl RateLimit ===

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled is the one that is ready.
        let ready = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, ready);
        let (parts, body) = request.into_parts();
        let takes = self.settings.takes(&parts);
        ResponseFuture::new(self.settings.clone(), service, Request::from_parts(parts, body), takes)
    }
}

// === impl Outcome ===

impl Outcome {
    /// Whether this, of a layer further in, says more than what a layer around it has come to.
    pub(super) const fn outweighs(&self, around: &Self) -> bool {
        match self {
            Self::Undecided(_) => true,
            Self::Decided(_) => matches!(around, Self::NotAsked),
            Self::NotAsked => false,
        }
    }
}

// === impl Settings ===

impl Settings {
    fn takes(&self, request: &Parts) -> Result<Vec<Take>, Refusal> {
        let takes = self.rules.iter().filter_map(|rule| rule.take(request).transpose());
        Ok(takes.collect::<Result<_, _>>()?)
    }

    /// Asks the limits: what they said, and why the request is refused, if it is.
    pub(super) async fn decide(&self, takes: Vec<Take>) -> (Outcome, Option<Refusal>) {
        let admission = takes.iter().cloned().fold(Admission::of(&self.client), Admission::take);
        match admission.joint().await {
            Ok(joint) => {
                let refusal = Denied::by(&joint, &takes).map(|denied| Refusal::denied(&denied));
                (Outcome::Decided(joint), refusal)
            }
            Err(error) => {
                let refusal = admission.is_refused(&error, self.on_error).then(|| Refusal::because(&error));
                (Outcome::Undecided(error), refusal)
            }
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("rules", &self.rules)
            .field("on_error", &self.on_error)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
