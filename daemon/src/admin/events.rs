//! Server-sent events: the past once, then the news of each second.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
};
use futures_util::stream;
use http::{
    StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{
    news::News,
    state::{AdminState, MOST_STREAMS},
};

const EVENTS: &str = "text/event-stream";

/// Set whenever a connection has taken an event. A stream whose reader is gone sets it no more.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(Arc<AtomicBool>);

// === impl Taken ===

impl Taken {
    /// Whether an event has been taken since the last call.
    pub(super) fn since_last(&self) -> bool {
        self.0.swap(false, Relaxed)
    }
}

/// The state of a stream.
struct Stream {
    past: Option<Bytes>,
    news: watch::Receiver<Arc<News>>,
    /// The number of the last news that were sent.
    seen: Option<u64>,
    taken: Taken,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn events(State(state): State<AdminState>, Extension(taken): Extension<Taken>) -> Response {
    let Some(permit) = state.stream_permit() else {
        let text = format!("{MOST_STREAMS} pages are open already: close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "5")], text).into_response();
    };
    let feed = state.feed();
    let (news, past) = (feed.subscribe(), Some(feed.past()));
    let stream = Stream { past, news, seen: None, taken, _permit: permit };
    let events = stream::unfold(stream, async |mut stream| {
        stream.taken.0.store(true, Relaxed);
        let event = match stream.past.take() {
            Some(past) => past,
            None => {
                stream.news.changed().await.ok()?;
                let news = stream.news.borrow_and_update().clone();
                news.event_after(stream.seen.replace(news.number()))
            }
        };
        Some((Ok::<_, Infallible>(event), stream))
    });
    ([(CONTENT_TYPE, EVENTS)], Body::from_stream(events)).into_response()
}
