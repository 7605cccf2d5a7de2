//! The last event that pages get, and the history before it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::history::History;

/// Events for all open pages.
#[derive(Debug)]
pub(super) struct Feed {
    events: watch::Sender<Bytes>,
    history: Mutex<History>,
    opened: Notify,
}

// === impl Feed ===

impl Feed {
    pub(super) fn new() -> Self {
        Self { events: watch::channel(Bytes::new()).0, history: Mutex::default(), opened: Notify::new() }
    }

    /// All news from now on. A page that reads slowly misses some.
    pub(super) fn subscribe(&self) -> watch::Receiver<Bytes> {
        let events = self.events.subscribe();
        self.opened.notify_one();
        events
    }

    /// Ends when a page is opened.
    pub(super) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Whether a page is open.
    pub(super) fn is_watched(&self) -> bool {
        self.events.receiver_count() > 0
    }

    /// Sends news to all open pages.
    pub(super) fn send(&self, news: &Value) {
        self.events.send_replace(event("news", news));
    }

    /// The first event of a page.
    pub(super) fn past(&self) -> Bytes {
        event("past", &json!(self.history().past()))
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server-sent event.
fn event(name: &str, data: &Value) -> Bytes {
    // JSON has no line breaks.
    format!("event: {name}\ndata: {data}\n\n").into()
}
