//! The layer for outgoing requests.

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use topup_wire::limit::OnOutage;
use tower_layer::Layer;
use tower_service::Service;

use super::{OutgoingKey, OutgoingResponse, retry_after::pause_of};
use crate::{
    admission::Admission, client::Client, denied::Denied, http::Limited, machine::Micros,
    shell::clock::micros, take::Take,
};

/// The longest wait for a token, unless set.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The longest pause that a called service can ask for, unless set. The service may be wrong, or hostile.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Between two looks whether a pause has ended early.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A layer that delays outgoing requests until a limit allows them.
///
/// A response 429 or 503 with `Retry-After` [pauses](crate::Bucket::pause) its bucket. All layers of this client and its
/// clones pause at once, all other workers with their next control poll. No request that takes from the bucket is sent
/// before the pause is over. No request is sent twice, and the caller gets the response.
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
    on_outage: Option<OnOutage>,
}

/// A service behind a [`WaitLayer`].
pub type Wait<S, K = ()> = Limited<S, WaitLayer<K>>;

/// The reason why a call has no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E> {
    /// No token came in time, or the pause of the called service is longer than the wait. Nothing was sent.
    #[error("not sent: {0}")]
    Denied(#[source] Denied),
    /// The error of the inner service.
    #[error(transparent)]
    Inner(E),
}

// === impl WaitLayer ===

impl WaitLayer {
    /// A layer that takes a token of the limit `name` for each request. Without [`key`](Self::key), the limit is unkeyed.
    pub fn new(client: &Client, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            client: client.clone(),
            limit: name.into(),
            key: Arc::new(()),
            longest: LONGEST_WAIT,
            longest_pause: LONGEST_PAUSE,
            on_outage: None,
        }
    }
}

impl<K> WaitLayer<K> {
    /// Chooses the bucket of a keyed limit: [`PerHost`](super::PerHost), or a closure over the request.
    pub fn key<Key>(self, key: Key) -> WaitLayer<Key> {
        let Self { client, limit, key: _, longest, longest_pause, on_outage } = self;
        WaitLayer { client, limit, key: Arc::new(key), longest, longest_pause, on_outage }
    }

    /// The longest wait of a request; 30 s unless set.
    pub fn wait(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// The longest pause that a called service gets; 10 min unless set.
    pub fn longest_pause(self, longest_pause: Duration) -> Self {
        Self { longest_pause, ..self }
    }

    /// The outage policy, for requests that Redis does not decide. It goes before the policies of the limit and of the
    /// client. Where none is set, requests are sent.
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        Self { on_outage: Some(on_outage), ..self }
    }

    /// Waits until a request that takes from the bucket of `key` may be sent.
    async fn wait_for_token(&self, key: Option<String>) -> Result<(), Denied> {
        let clock = &self.client.shared().clock;
        let until = clock.now().saturating_add(micros(self.longest));
        let mut take = Take::of(self.limit.clone());
        if let Some(key) = &key {
            take = take.key(key);
        }
        self.wait_for_pause(&take, until).await?;
        let left = Duration::from_micros(until.saturating_sub(clock.now()));
        let admission = Admission::of(&self.client).or_else(OnOutage::Allow);
        let admission = self.on_outage.into_iter().fold(admission, Admission::on_outage);
        admission.take(take.clone()).wait(left).decide_or_deny().await?;
        // A pause may have begun meanwhile.
        self.wait_for_pause(&take, until).await
    }

    /// Waits for the end of a pause, whatever the limit's mode: the called service has asked for it.
    async fn wait_for_pause(&self, take: &Take, until: Micros) -> Result<(), Denied> {
        let (clock, bucket) = (&self.client.shared().clock, take.bucket(&self.client));
        while let Some(over) = bucket.paused_until().filter(|over| *over > clock.now()) {
            let wait = Duration::from_micros(over.saturating_sub(clock.now()));
            if over > until {
                return Err(Denied::paused(take, wait));
            }
            clock.sleep(wait.min(LOOK_AGAIN)).await;
        }
        Ok(())
    }

    /// Begins the pause that a response asks for.
    fn pause(&self, response: &impl OutgoingResponse, key: Option<String>) {
        if let Some(wait) = pause_of(response) {
            let take = Take::of(self.limit.clone());
            let take = key.into_iter().fold(take, Take::key);
            take.bucket(&self.client).pause_soon(wait.min(self.longest_pause));
        }
    }
}

impl<S, K> Layer<S> for WaitLayer<K> {
    type Service = Wait<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        Limited::new(inner, self)
    }
}

// Not derived: clones share the key, which need not be `Clone`.
impl<K> Clone for WaitLayer<K> {
    fn clone(&self) -> Self {
        let (client, limit, key) = (self.client.clone(), self.limit.clone(), self.key.clone());
        Self { client, limit, key, ..*self }
    }
}

// === impl Wait ===

impl<S, K, Q> Service<Q> for Wait<S, K>
where
    S: Service<Q, Response: OutgoingResponse, Error: Send, Future: Send> + Clone + Send + 'static,
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
        let (mut service, layer) = self.take_ready();
        Box::pin(async move {
            let key = layer.key.key(&request);
            layer.wait_for_token(key.clone()).await.map_err(CallError::Denied)?;
            let response = service.call(request).await.map_err(CallError::Inner)?;
            layer.pause(&response, key);
            Ok(response)
        })
    }
}
