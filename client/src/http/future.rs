//! The future of a limited service's response.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Either;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    Outcome, Rejection, ResponseBody,
    headers::write_retry_after,
    settings::{Asked, Settings, Settling},
};

type Decide = Pin<Box<dyn Future<Output = (Outcome, Option<Rejection>, Vec<Settling>)> + Send>>;

pin_project! {
    /// The response of a [`RateLimit`](super::RateLimit) service: a rejection, or the response of the inner service.
    pub struct ResponseFuture<S: Service<Request<B>>, B> {
        settings: Arc<Settings>,
        #[pin]
        state: State<S, S::Future, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, F, B> {
        /// The limits decide.
        Deciding { decide: Decide, service: S, request: Option<Request<B>> },
        /// The inner service has the request.
        Within { #[pin] future: F, outcome: Option<Outcome>, settling: Vec<Settling> },
    }
}

// === impl ResponseFuture ===

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    pub(super) fn new(
        settings: Arc<Settings>,
        mut service: S,
        request: Request<B>,
        asked: Result<Asked, Rejection>,
    ) -> Self {
        let state = match asked {
            Ok(asked) if asked.takes.is_empty() => State::Within {
                future: service.call(request),
                outcome: Some(Outcome::NotAsked),
                settling: Vec::new(),
            },
            Ok(asked) => {
                let deciding = settings.clone();
                let decide: Decide = Box::pin(async move { deciding.decide(asked).await });
                State::Deciding { decide, service, request: Some(request) }
            }
            Err(rejection) => {
                let decide: Decide =
                    Box::pin(std::future::ready((Outcome::NotAsked, Some(rejection), Vec::new())));
                State::Deciding { decide, service, request: Some(request) }
            }
        };
        Self { settings, state }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Deciding { decide, service, request } => {
                    let (outcome, rejection, settling) = ready!(decide.as_mut().poll(cx));
                    let Some(request) = request.take() else { return Poll::Pending };
                    if let Some(rejection) = rejection {
                        let (parts, _) = request.into_parts();
                        let mut response = (this.settings.respond)(&parts, &rejection).map(Either::Left);
                        write_retry_after(rejection.retry_after(), response.headers_mut());
                        this.settings.mark(outcome, &mut response);
                        return Poll::Ready(Ok(response));
                    }
                    State::Within { future: service.call(request), outcome: Some(outcome), settling }
                }
                StateProjection::Within { future, outcome, settling } => {
                    let mut response = ready!(future.poll(cx))?.map(Either::Right);
                    if !settling.is_empty() {
                        let (parts, body) = response.into_parts();
                        settling.drain(..).for_each(|settling| settling.settle(&parts));
                        response = Response::from_parts(parts, body);
                    }
                    if let Some(outcome) = outcome.take() {
                        this.settings.mark(outcome, &mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
            };
            this.state.set(next);
        }
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for ResponseFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

// === impl Settings ===

impl Settings {
    /// Adds the outcome to a response: as headers, and as an extension.
    fn mark<B>(&self, outcome: Outcome, response: &mut Response<B>) {
        if let Outcome::Decided(decided) | Outcome::Degraded(decided) = &outcome {
            self.headers.write(decided, &self.client, response.headers_mut());
        }
        let known = response.extensions().get();
        if !known.is_some_and(|known: &Outcome| known.outweighs(&outcome)) {
            response.extensions_mut().insert(outcome);
        }
    }
}
