//! Answers in JSON.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};

const JSON: &str = "application/json";

pub(super) fn json_of(is_well: bool, body: &Value) -> Response {
    answer(if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, body)
}

/// A refusal and its reason.
pub(super) fn refused(status: StatusCode, error: &str) -> Response {
    answer(status, &json!({ "error": error }))
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, JSON)], format!("{body}\n")).into_response()
}
