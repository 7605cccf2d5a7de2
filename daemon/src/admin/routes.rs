//! The pages of the admin server.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Router,
    extract::{Path, RawQuery, State},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{
    HeaderMap, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    actions, assets,
    events::events,
    guard::{Guard, guard},
    head::awaited,
    reply::{json_of, refused},
    state::AdminState,
};
use crate::metrics::{Scrape, to_classic};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The loop of the engine turns every 25 ms, or it hangs.
const TURN: Duration = Duration::from_secs(2);

/// All pages, behind the guard.
pub(super) fn router(state: AdminState, rules: Guard) -> Router {
    Router::new()
        .route("/", get(assets::index))
        .route(&format!("{}{{file}}", assets::FOLDER), get(assets::file))
        .route("/events", get(events))
        .route("/actions/reset", post(actions::reset))
        .route("/actions/pause", post(actions::pause))
        .route("/actions/resume", post(actions::resume))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/limits", get(limits))
        .route("/top", get(top))
        .route("/buckets/{limit}", get(bucket))
        .route("/buckets/{limit}/{*key}", get(keyed_bucket))
        .layer(from_fn_with_state(rules, guard))
        .with_state(state)
}

async fn metrics(State(state): State<AdminState>, headers: HeaderMap) -> Response {
    let status = state.status();
    let scrape = Scrape { status, report: state.report().await };
    let Ok(text) = state.metrics().encode(scrape) else {
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
    let mut status = state.status_to_come();
    let before = status.borrow().turns;
    let turned = timeout(TURN, status.wait_for(|status| status.turns != before)).await;
    let turns = matches!(turned, Ok(Ok(_)));
    json_of(turns, &json!({ "healthy": turns }))
}

/// Whether all shards have been refilled, and Redis answers. Names what is awaited otherwise.
async fn readyz(State(state): State<AdminState>) -> Response {
    let status = state.status();
    let awaited = awaited(&status);
    json_of(awaited.is_empty(), &json!({ "ready": awaited.is_empty(), "waits_for": awaited }))
}

async fn limits(State(state): State<AdminState>) -> Response {
    let report = state.report().await;
    json_of(report.generation.is_some(), &json!({ "problems": report.problems, "limits": report.limits }))
}

/// The most denied keys of each limit that tells them.
async fn top(State(state): State<AdminState>) -> Response {
    let report = state.report().await;
    let told = report.limits.iter().filter_map(|row| Some((&row.name, row.top_denied.as_ref()?)));
    let told: BTreeMap<_, _> = told.collect();
    json_of(report.generation.is_some(), &json!({ "problems": report.problems, "top_denied": told }))
}

/// The key may be in the query, since a browser takes the keys "." and ".." in a path for folders.
async fn bucket(
    State(state): State<AdminState>,
    Path(limit): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let key = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "key");
    peeked(&state, limit, key.map(|(_, key)| key.into_owned())).await
}

async fn keyed_bucket(
    State(state): State<AdminState>,
    Path((limit, key)): Path<(String, String)>,
) -> Response {
    peeked(&state, limit, Some(key)).await
}

async fn peeked(state: &AdminState, limit: String, key: Option<String>) -> Response {
    match &*state.peek(limit, key).await {
        Ok(bucket) => json_of(true, bucket),
        Err((status, error)) => refused(*status, error),
    }
}
