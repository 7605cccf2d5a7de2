//! The pages of the admin server.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{
    HeaderMap, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde_json::json;
use tokio::{sync::watch, time::timeout};
use topup_wire::connection::{Connection, connect_lazily};

use super::{
    cached::Cached,
    guard::{Guard, guard},
    peek::{Peeked, peek},
};
use crate::{
    config::RedisUrl,
    metrics::{Metrics, Scrape, to_classic},
    refill::EngineStatus,
    report::{Pace, StatusReport, gather},
    trouble,
};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
/// The loop of the engine turns every 25 ms, or it hangs.
const TURN: Duration = Duration::from_secs(2);

/// What all pages read.
#[derive(Clone)]
pub(crate) struct AdminState(Arc<Shared>);

struct Shared {
    status: watch::Receiver<EngineStatus>,
    metrics: Metrics,
    /// A connection of its own, so that no answer to the engine comes behind one to a page.
    connection: Option<Connection>,
    redis: String,
    reports: Cached<(), StatusReport>,
    peeks: Cached<(String, Option<String>), Peeked>,
}

// === impl AdminState ===

impl AdminState {
    pub(crate) fn new(url: &RedisUrl, status: watch::Receiver<EngineStatus>, metrics: Metrics) -> Self {
        // The engine has connected to the same URL, so it is a right one.
        let connection = connect_lazily(url.as_str()).ok();
        let connection = connection.map(|connection| connection.in_namespace(url.namespace()));
        let (reports, peeks) = (Cached::new(), Cached::new());
        Self(Arc::new(Shared { status, metrics, connection, redis: url.to_string(), reports, peeks }))
    }

    /// The published state, at most a second old.
    async fn report(&self) -> Arc<StatusReport> {
        let shared = &self.0;
        let gather = async {
            match &shared.connection {
                Some(connection) => gather(shared.redis.clone(), connection, Pace::GENTLE).await,
                None => StatusReport::default(),
            }
        };
        shared.reports.get((), gather).await
    }
}

/// All pages, behind the guard.
pub(super) fn router(state: AdminState, rules: Guard) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/limits", get(limits))
        .route("/buckets/{limit}", get(bucket))
        .route("/buckets/{limit}/{*key}", get(keyed_bucket))
        .layer(from_fn_with_state(rules, guard))
        .with_state(state)
}

async fn metrics(State(state): State<AdminState>, headers: HeaderMap) -> Response {
    let status = state.0.status.borrow().clone();
    let scrape = Scrape { status, report: state.report().await };
    let Ok(text) = state.0.metrics.encode(scrape) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    match accepts.contains("application/openmetrics-text") {
        true => ([(CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        false => ([(CONTENT_TYPE, CLASSIC)], to_classic(&text)).into_response(),
    }
}

/// Whether the loop of the engine turns.
async fn healthz(State(state): State<AdminState>) -> Response {
    let mut status = state.0.status.clone();
    let before = status.borrow().turns;
    let turned = timeout(TURN, status.wait_for(|status| status.turns != before)).await;
    let turns = matches!(turned, Ok(Ok(_)));
    json_of(turns, &json!({ "healthy": turns }))
}

/// Whether all shards have been refilled, and Redis answers. Names what is awaited otherwise.
async fn readyz(State(state): State<AdminState>) -> Response {
    let status = state.0.status.borrow().clone();
    let mut awaited = Vec::new();
    if !status.connected {
        awaited.push(match status.cause {
            Some(cause) => format!("Redis: {}", trouble::what(cause)),
            None => "Redis: the first answer".to_owned(),
        });
    }
    if let Some(newer) = status.newer_schema {
        awaited.push(format!("an upgrade of this daemon: {newer}"));
    }
    if status.nothing_published {
        awaited.push("a config without mistakes: nothing is published".to_owned());
    }
    if !status.ready {
        awaited.push("the first refill of every published shard".to_owned());
    }
    json_of(awaited.is_empty(), &json!({ "ready": awaited.is_empty(), "waits_for": awaited }))
}

async fn limits(State(state): State<AdminState>) -> Response {
    let report = state.report().await;
    json_of(report.generation.is_some(), &json!({ "problems": report.problems, "limits": report.limits }))
}

async fn bucket(State(state): State<AdminState>, Path(limit): Path<String>) -> Response {
    peeked(&state, limit, None).await
}

async fn keyed_bucket(
    State(state): State<AdminState>,
    Path((limit, key)): Path<(String, String)>,
) -> Response {
    peeked(&state, limit, Some(key)).await
}

async fn peeked(state: &AdminState, limit: String, key: Option<String>) -> Response {
    let Some(connection) = state.0.connection.clone() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let asked = (limit.clone(), key.clone());
    match &*state.0.peeks.get(asked, peek(connection, limit, key)).await {
        Ok(bucket) => json_of(true, bucket),
        Err((status, error)) => {
            (*status, [(CONTENT_TYPE, JSON)], json!({ "error": error }).to_string()).into_response()
        }
    }
}

fn json_of(is_well: bool, body: &serde_json::Value) -> Response {
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [(CONTENT_TYPE, JSON)], format!("{body}\n")).into_response()
}
