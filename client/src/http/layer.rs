//! The layer for incoming requests.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts, response};
use http_body::Body;
use http_body_util::Full;
use topup_wire::limit::OnOutage;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Headers, Rejection, ResponseBody, ResponseFuture, Rule,
    respond::{respond, respond_with_problem},
    rule::CostOfResponse,
};
use crate::{
    admission::Admission, client::Client, denied::Denied, error::Error, hold::Hold, take::Take,
    take_all::MultiDecision,
};

type Respond = dyn Fn(&Parts, &Rejection) -> Response<Full<Bytes>> + Send + Sync;

/// A layer that passes requests as far as limits allow, and rejects the others with 429.
///
/// The limits of one layer are one decision: tokens are taken from all of them or from none.
#[derive(Clone, Debug)]
#[must_use = "a layer limits nothing until a service is built with it"]
pub struct RateLimitLayer(Arc<Settings>);

/// A service behind a [`RateLimitLayer`].
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    settings: Arc<Settings>,
}

/// The decision about a request, in the extensions of its response.
///
/// With several layers, the decision of the outermost one that asked any limit counts. [`Degraded`](Self::Degraded) and
/// [`Undecided`](Self::Undecided) of an inner layer outweigh it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The decisions of the limits.
    Decided(MultiDecision),
    /// The decisions of the limits. Redis did not decide them all, so the outage policy did.
    Degraded(MultiDecision),
    /// No limit could decide, such as one that is not published. The outage policy did.
    Undecided(Error),
    /// No limit applies to the request, or it has no key.
    NotAsked,
}

/// The takes of a request.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) takes: Vec<Take>,
    /// The takes that the response settles: the index of each in `takes`, and the cost by the response.
    settled: Vec<(usize, Arc<CostOfResponse>)>,
}

/// A hold that the response settles.
pub(super) struct Settling {
    hold: Hold,
    cost: Arc<CostOfResponse>,
}

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) client: Client,
    rules: Vec<Rule>,
    on_outage: Option<OnOutage>,
    pub(super) headers: Headers,
    pub(super) respond: Arc<Respond>,
}

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
    /// ends, and the response's [`Outcome`] has the reason.
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
        // Only the polled service is ready, and a clone of it is not.
        let ready = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, ready);
        let (parts, body) = request.into_parts();
        let takes = self.settings.takes(&parts);
        ResponseFuture::new(self.settings.clone(), service, Request::from_parts(parts, body), takes)
    }
}

// === impl Outcome ===

impl Outcome {
    /// Whether this outcome, of an inner layer, stays in place of that of a layer around it.
    pub(super) const fn outweighs(&self, around: &Self) -> bool {
        match self {
            Self::Degraded(_) | Self::Undecided(_) => true,
            Self::Decided(_) => matches!(around, Self::NotAsked),
            Self::NotAsked => false,
        }
    }
}

// === impl Settling ===

impl Settling {
    /// Settles the hold by the head of a response, in a task of its own.
    pub(super) fn settle(self, response: &response::Parts) {
        let Self { mut hold, cost } = self;
        let used = cost(response).unwrap_or(hold.estimate());
        let runtime = hold.runtime();
        // Without Redis, the hold is abandoned.
        runtime.spawn(async move { hold.settle(used).await });
    }
}

// === impl Settings ===

impl Settings {
    fn takes(&self, request: &Parts) -> Result<Asked, Rejection> {
        let mut asked = Asked::default();
        for rule in &self.rules {
            let Some(take) = rule.take(request)? else { continue };
            if let Some(cost) = rule.settles() {
                asked.settled.push((asked.takes.len(), cost.clone()));
            }
            asked.takes.push(take);
        }
        Ok(asked)
    }

    /// Asks the limits. Returns the outcome, the rejection if there is one, and the holds that the response settles.
    pub(super) async fn decide(&self, asked: Asked) -> (Outcome, Option<Rejection>, Vec<Settling>) {
        let Asked { takes, settled } = asked;
        let (outcome, rejection) = self.ask(&takes).await;
        let mut settling = Vec::new();
        if let (Outcome::Decided(decided) | Outcome::Degraded(decided), None) = (&outcome, &rejection) {
            for (at, cost) in settled {
                let (bucket, estimate) = (takes[at].bucket(&self.client), takes[at].tokens());
                let (bucket, is_exempt) = bucket.of_hold().await;
                if let Some(hold) = Hold::of(decided, &bucket, estimate, is_exempt) {
                    hold.remember().await;
                    settling.push(Settling { hold, cost });
                }
            }
        }
        (outcome, rejection, settling)
    }

    async fn ask(&self, takes: &[Take]) -> (Outcome, Option<Rejection>) {
        let admission = Admission::of(&self.client).or_else(OnOutage::Allow);
        let admission = self.on_outage.into_iter().fold(admission, Admission::on_outage);
        let admission = takes.iter().cloned().fold(admission, Admission::take);
        match admission.multi_decision().await {
            Ok(decided) => {
                let rejection = Denied::by(&decided, takes).map(|denied| Rejection::denied(&denied));
                let outcome = if decided.is_degraded() {
                    Outcome::Degraded(decided)
                } else {
                    Outcome::Decided(decided)
                };
                (outcome, rejection)
            }
            Err(error) => {
                let rejection = admission.denies_on(&error).then(|| Rejection::because(&error));
                (Outcome::Undecided(error), rejection)
            }
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("rules", &self.rules)
            .field("on_outage", &self.on_outage)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
