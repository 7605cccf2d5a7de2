//! The layer that holds a permit for each request under way.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;
use topup_wire::limit::OnOutage;
use tower_layer::Layer;
use tower_service::Service;

use super::{Limited, Rejection, ResponseBody, Rule, headers::write_retry_after, respond::respond};
use crate::{client::Client, outage::Policies, permits::Permit};

type PermitFuture<R, E> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody<PermitBody<R>>>, E>> + Send>>;

/// A layer that bounds the requests under way, of a limit with `algorithm = "concurrency"`: over all processes that share
/// the limit, or for each key.
///
/// A request has its permit until the body of its response has ended, or is dropped. The answer to a request without one
/// is 429 for a limit of keys, and 503 for a limit of the whole service, with `Retry-After`. The layer fits servers, and
/// clients of `http` types.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use topup::http::{PermitLayer, Rule, key};
///
/// # fn example(topup: topup::Client) {
/// let all = PermitLayer::new(&topup, "renders").patience(Duration::from_secs(2));
/// let each = PermitLayer::new(&topup, Rule::of("renders-of-user").key(key::header("x-api-key")));
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer limits nothing until a service is built with it"]
pub struct PermitLayer(Arc<Settings>);

/// A service behind a [`PermitLayer`].
pub type Permitted<S> = Limited<S, PermitLayer>;

#[derive(Clone, Debug)]
struct Settings {
    client: Client,
    rule: Rule,
    patience: Duration,
    on_outage: Option<OnOutage>,
}

pin_project! {
    /// A body that holds a permit until its end.
    pub struct PermitBody<R> {
        #[pin]
        body: R,
        permit: Option<Permit>,
    }
}

// === impl PermitLayer ===

impl PermitLayer {
    /// A layer for one limit: its name, or a [`Rule`]. The cost of a rule is a number of permits. `client` decides.
    pub fn new(client: &Client, rule: impl Into<Rule>) -> Self {
        let (client, rule) = (client.clone(), rule.into());
        Self(Arc::new(Settings { client, rule, patience: Duration::ZERO, on_outage: None }))
    }

    /// The longest time that a request waits for its permit; none unless set.
    pub fn patience(self, patience: Duration) -> Self {
        self.with(|settings| settings.patience = patience)
    }

    /// The outage policy, for requests that Redis does not decide. It goes before the policies of the limit and of the
    /// client. Where none is set, requests pass.
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        self.with(|settings| settings.on_outage = Some(on_outage))
    }

    fn with(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(Arc::make_mut(&mut self.0));
        self
    }
}

impl<S> Layer<S> for PermitLayer {
    type Service = Permitted<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Limited::new(inner, self)
    }
}

// === impl Permitted ===

impl<S, B, R> Service<Request<B>> for Permitted<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Body<Data = Bytes> + Send,
{
    type Response = Response<ResponseBody<PermitBody<R>>>;
    type Error = S::Error;
    type Future = PermitFuture<R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut service, PermitLayer(settings)) = self.take_ready();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            match settings.acquire(&parts).await {
                Ok(permit) => {
                    let response = service.call(Request::from_parts(parts, body)).await?;
                    Ok(response.map(|body| Either::Right(PermitBody { body, permit })))
                }
                Err(rejection) => {
                    let mut response = respond(&parts, &rejection).map(Either::<Full<Bytes>, _>::Left);
                    write_retry_after(rejection.retry_after(), response.headers_mut());
                    Ok(response)
                }
            }
        })
    }
}

// === impl Settings ===

impl Settings {
    /// The permit of a request; `None` for one that needs none.
    async fn acquire(&self, request: &Parts) -> Result<Option<Permit>, Rejection> {
        let Some(take) = self.rule.take(request)? else { return Ok(None) };
        let policies = Policies { call: self.on_outage, fallback: Some(OnOutage::Allow) };
        let bucket = take.bucket(&self.client).with_policies(policies);
        match bucket.acquire(take.tokens(), self.patience).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            Ok(Err(denied)) if denied.key().is_none() => {
                Err(Rejection::denied(&denied).with_status(StatusCode::SERVICE_UNAVAILABLE))
            }
            Ok(Err(denied)) => Err(Rejection::denied(&denied)),
            Err(error) if error.is_of_the_take() || self.on_outage == Some(OnOutage::Deny) => {
                Err(Rejection::because(&error))
            }
            // The limit is not published, or has tokens: as where Redis does not decide.
            Err(_) => Ok(None),
        }
    }
}

// === impl PermitBody ===

impl<R> PermitBody<R> {
    /// The permit, while the body has not ended. `None` for a request without one.
    pub const fn permit(&self) -> Option<&Permit> {
        self.permit.as_ref()
    }
}

impl<R: Body> Body for PermitBody<R> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        if frame.is_none() {
            *this.permit = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<R> fmt::Debug for PermitBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitBody").field("permit", &self.permit).finish_non_exhaustive()
    }
}
