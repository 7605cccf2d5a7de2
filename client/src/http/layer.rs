//! The layer for incoming requests.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use http_body_util::Full;
use topup_wire::limit::OnOutage;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Headers, Limited, Rejection, ResponseBody, ResponseFuture, Rule,
    respond::{respond, respond_with_problem},
    settings::Settings,
};
use crate::client::Client;

/// A layer that passes requests as far as limits allow, and rejects the others with 429.
///
/// The limits of one layer are one decision: tokens are taken from all of them or from none.
#[derive(Clone, Debug)]
#[must_use = "a layer limits nothing until a service is built with it"]
pub struct RateLimitLayer(Arc<Settings>);

/// A service behind a [`RateLimitLayer`].
pub type RateLimit<S> = Limited<S, RateLimitLayer>;

// === impl RateLimitLayer ===

impl RateLimitLayer {
    /// A layer without limits. `client` decides.
    pub fn new(client: &Client) -> Self {
        Self(Arc::new(Settings {
            client: client.clone(),
            rules: Vec::new(),
            on_outage: None,
            headers: Headers::default(),
            respond: Arc::new(respond),
        }))
    }

    /// Adds a limit: its name, or a [`Rule`].
    pub fn limit(self, rule: impl Into<Rule>) -> Self {
        self.with(|settings| settings.rules.push(rule.into()))
    }

    /// The outage policy, for requests that Redis does not decide. It goes before the policies of the limits and of the
    /// client. Where none is set, requests pass. [`Client::undecided`] counts them, the log says when an outage begins and
    /// ends, and the response's [`Outcome`](super::Outcome) has the reason.
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        self.with(|settings| settings.on_outage = Some(on_outage))
    }

    /// The headers of responses; all of them unless set.
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|settings| settings.headers = headers)
    }

    /// Answers rejected requests with problem details (RFC 9457), whatever the sender accepts. Without this, only a sender
    /// whose `Accept` names `application/problem+json` gets them. gRPC calls get a gRPC status in any case.
    pub fn problem_details(self) -> Self {
        self.respond_with(respond_with_problem)
    }

    /// Makes the responses to rejected requests. The layer adds `Retry-After` and the headers of the limits.
    pub fn respond_with(
        self,
        respond: impl Fn(&Parts, &Rejection) -> Response<Full<Bytes>> + Send + Sync + 'static,
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
        Limited::new(inner, self)
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
        let (service, RateLimitLayer(settings)) = self.take_ready();
        let (parts, body) = request.into_parts();
        let takes = settings.takes(&parts);
        ResponseFuture::new(settings, service, Request::from_parts(parts, body), takes)
    }
}
