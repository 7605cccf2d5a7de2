//! The last event that pages get, and the history before it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::{
    history::History,
    news::{News, Rows, event},
};

/// Events for all open pages.
#[derive(Debug)]
pub(super) struct Feed {
    events: watch::Sender<Arc<News>>,
    history: Mutex<History>,
    opened: Notify,
}

// === impl Feed ===

impl Feed {
    pub(super) fn new() -> Self {
        let events = watch::channel(Arc::default()).0;
        Self { events, history: Mutex::default(), opened: Notify::new() }
    }

    /// All news from now on. A page that reads slowly misses some.
    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<News>> {
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

    /// Sends news to all open pages: `head`, and the limits in `rows`.
    pub(super) fn send(&self, head: Value, rows: Rows) {
        let news = self.events.borrow().next(head, rows);
        self.events.send_replace(Arc::new(news));
    }

    /// The first event of a page.
    pub(super) fn past(&self) -> Bytes {
        event("past", &json!(self.history().past()).to_string())
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
