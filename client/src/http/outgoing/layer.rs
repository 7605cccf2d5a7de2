//! The layer for requests that go out.

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::sleep;
use tower_layer::Layer;
use tower_service::Service;

use super::{Answer, OutgoingKey, retry_after::asked_by};
use crate::{
    admission::Admission, client::Client, denied::Denied, machine::Micros, outage::OnError,
    shell::clock::micros, take::Take,
};

/// The longest a request waits for its token unless told otherwise.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest pause the other side can ask for, unless told otherwise: it may be mistaken, or mean us ill.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Has requests that go out wait until a limit allows them.
///
/// An answer 429 or 503 with `Retry-After` pauses its bucket: no request that takes from it is sent before, by whichever
/// layer of this client or a clone of it. Other processes are told so by the other side itself. Nothing is sent twice: the answer
/// goes to the caller.
///
/// # Examples
/// ```no_run
/// # #[cfg(feature = "reqwest")]
/// # async fn example(topup: topup::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use topup::http::{PerHost, WaitLayer};
/// use tower::{Service, ServiceExt, Layer};
///
/// // [limit.crawl] keyed = true, capacity = 1, rate = "1/s"
/// let mut polite = WaitLayer::new(&topup, "crawl").key(PerHost).layer(reqwest::Client::new());
/// let request = reqwest::Request::new(http::Method::GET, "https://example.org/".parse()?);
/// println!("{}", polite.ready().await?.call(request).await?.status());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a layer limits nothing until a service is built with it"]
pub struct WaitLayer<K = ()> {
    client: Client,
    limit: Cow<'static, str>,
    key: Arc<K>,
    longest: Duration,
    longest_pause: Duration,
    on_error: OnError,
}

/// A service behind a [`WaitLayer`].
#[derive(Debug)]
pub struct Wait<S, K = ()> {
    inner: S,
    layer: WaitLayer<K>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError<E> {
    /// No token came in time, or the other side is to be left alone for longer than that. Nothing was sent.
    #[error("not sent: {0}")]
    Denied(#[source] Denied),
    /// What the service within says.
    #[error(transparent)]
    Inner(E),
}

// === impl WaitLayer ===

impl WaitLayer {
    /// Takes a token of the limit `name` for each request, from one bucket for all of them.
    pub fn new(client: &Client, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            client: client.clone(),
            limit: name.into(),
            key: Arc::new(()),
            longest: LONGEST,
            longest_pause: LONGEST_PAUSE,
            on_error: OnError::default(),
        }
    }
}

impl<K> WaitLayer<K> {
    /// From whose bucket, for a limit that is keyed: [`PerHost`](super::PerHost), or a closure over the request.
    pub fn key<Key>(self, key: Key) -> WaitLayer<Key> {
        let Self { client, limit, key: _, longest, longest_pause, on_error } = self;
        WaitLayer { client, limit, key: Arc::new(key), longest, longest_pause, on_error }
    }

    /// The longest a request waits for its turn; 30 s unless set.
    pub fn wait(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// The longest pause that is kept, whatever the other side asks for; 10 min unless set.
    pub fn longest_pause(self, longest_pause: Duration) -> Self {
        Self { longest_pause, ..self }
    }

    /// What to do when Redis cannot decide; unless set, requests are sent.
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Returns when a request that takes from the bucket of `key` may be sent.
    async fn turn(&self, key: Option<String>) -> Result<(), Denied> {
        let clock = &self.client.shared().clock;
        let until = clock.now().saturating_add(micros(self.longest));
        let mut take = Take::of(self.limit.clone());
        if let Some(key) = &key {
            take = take.key(key);
        }
        let name = (self.limit.to_string(), key);
        self.pause_over(&name, &take, until).await?;
        let left = Duration::from_micros(until.saturating_sub(clock.now()));
        Admission::of(&self.client).take(take.clone()).wait(left).decide_or(self.on_error).await?;
        // One that has begun while this waited for its token.
        self.pause_over(&name, &take, until).await
    }

    async fn pause_over(
        &self,
        name: &(String, Option<String>),
        take: &Take,
        until: Micros,
    ) -> Result<(), Denied> {
        let shared = self.client.shared();
        while let Some(over) = shared.pauses.until(name, shared.clock.now()) {
            let wait = Duration::from_micros(over.saturating_sub(shared.clock.now()));
            if over > until {
                return Err(Denied::paused(take, wait));
            }
            sleep(wait).await;
        }
        Ok(())
    }

    /// Leaves the other side alone for as long as it asks.
    fn heed(&self, answer: &impl Answer, key: Option<String>) {
        if let Some(wait) = asked_by(answer) {
            let shared = self.client.shared();
            let now = shared.clock.now();
            let until = now.saturating_add(micros(wait.min(self.longest_pause)));
            shared.pauses.pause((self.limit.to_string(), key), until, now);
        }
    }
}

impl<S, K> Layer<S> for WaitLayer<K> {
    type Service = Wait<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        Wait { inner, layer: self.clone() }
    }
}

// Not derived: clones share the key, which need not be one that can be cloned.
impl<K> Clone for WaitLayer<K> {
    fn clone(&self) -> Self {
        let (client, limit, key) = (self.client.clone(), self.limit.clone(), self.key.clone());
        Self { client, limit, key, ..*self }
    }
}

// === impl Wait ===

impl<S: Clone, K> Clone for Wait<S, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, K, Q> Service<Q> for Wait<S, K>
where
    S: Service<Q, Response: Answer, Error: Send, Future: Send> + Clone + Send + 'static,
    K: OutgoingKey<Q> + Send + Sync + 'static,
    Q: Send + 'static,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(CallError::Inner)
    }

    fn call(&mut self, request: Q) -> Self::Future {
        // The one that was polled is the one that is ready.
        let ready = self.inner.clone();
        let mut service = std::mem::replace(&mut self.inner, ready);
        let layer = self.layer.clone();
        Box::pin(async move {
            let key = layer.key.key(&request);
            layer.turn(key.clone()).await.map_err(CallError::Denied)?;
            let answer = service.call(request).await.map_err(CallError::Inner)?;
            layer.heed(&answer, key);
            Ok(answer)
        })
    }
}
