//! Changes by hand: only with the token, only by POST.

use std::time::Duration;

use axum::{body::Bytes, extract::State, response::Response};
use http::StatusCode;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    scripts::{self, PauseReply},
};

use super::{
    peek::{LONGEST, refusal, settle},
    reply::{json_of, refused},
    state::AdminState,
};
use crate::report::{BucketError, BucketLocation, find_limit};

/// A limit, or the bucket of a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    limit: String,
    key: Option<String>,
}

/// A pause of a limit or a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {
    limit: String,
    key: Option<String>,
    for_s: f64,
}

/// Fills a bucket. Answers with its state.
pub(super) async fn reset(State(state): State<AdminState>, body: Bytes) -> Response {
    let (Named { limit, key }, connection) = match begin(&state, &body) {
        Ok(begun) => begun,
        Err(refusal) => return refusal,
    };
    match settle(connection, limit.clone(), key.clone(), Operation::Reset).await {
        Ok(bucket) => {
            // Keys may be personal: the log does not name them.
            tracing::warn!("limit {limit}: a bucket was reset by the admin server");
            state.forget_peek(&(limit, key)).await;
            json_of(true, &bucket)
        }
        Err((status, error)) => refused(status, &error),
    }
}

/// Pauses a limit or a key. Answers with the time that is left.
pub(super) async fn pause(State(state): State<AdminState>, body: Bytes) -> Response {
    let (Pause { limit, key, for_s }, mut connection) = match begin(&state, &body) {
        Ok(begun) => begun,
        Err(refusal) => return refusal,
    };
    let Some(time) = Duration::try_from_secs_f64(for_s).ok().filter(|time| !time.is_zero()) else {
        return refused(StatusCode::BAD_REQUEST, "the body: for_s is no time in seconds");
    };
    let paused = async {
        let name = check(connection.clone(), &limit, key.as_deref()).await?;
        Ok(scripts::pause(&mut connection, &name, key.as_deref(), time).await?)
    };
    concluded("paused", &limit, timeout(LONGEST, paused).await)
}

/// Ends the pause of a limit or a key.
pub(super) async fn resume(State(state): State<AdminState>, body: Bytes) -> Response {
    let (Named { limit, key }, mut connection) = match begin(&state, &body) {
        Ok(begun) => begun,
        Err(refusal) => return refusal,
    };
    let resumed = async {
        let name = check(connection.clone(), &limit, key.as_deref()).await?;
        Ok(scripts::resume(&mut connection, &name, key.as_deref()).await?)
    };
    concluded("resumed", &limit, timeout(LONGEST, resumed).await)
}

/// The request in the body, and a connection.
#[allow(clippy::result_large_err, reason = "an answer that is sent at once")]
fn begin<T: DeserializeOwned>(state: &AdminState, body: &Bytes) -> Result<(T, Connection), Response> {
    let named = serde_json::from_slice(body)
        .map_err(|error| refused(StatusCode::BAD_REQUEST, &format!("the body: {error}")))?;
    let connection = state.connection();
    Ok((named, connection.ok_or_else(|| refused(StatusCode::SERVICE_UNAVAILABLE, "Redis: no connection"))?))
}

/// The name of a published limit that has a bucket for `key`, or any bucket.
async fn check(
    mut connection: Connection,
    limit: &str,
    key: Option<&str>,
) -> Result<topup_wire::limit::LimitName, BucketError> {
    match key {
        Some(_) => Ok(BucketLocation::find(connection, limit, key).await?.limit.name),
        None => Ok(find_limit(&mut connection, limit).await?.limit.name),
    }
}

fn concluded(
    what: &str,
    limit: &str,
    result: Result<Result<PauseReply, BucketError>, tokio::time::error::Elapsed>,
) -> Response {
    match result {
        Ok(Ok(PauseReply { left: None, .. })) => {
            refused(StatusCode::CONFLICT, "as many pauses as there may be are in force: end another one")
        }
        Ok(Ok(PauseReply { left: Some(left), changed })) => {
            if changed {
                tracing::warn!("limit {limit}: {what} by the admin server");
            }
            let left: Value = left.as_secs_f64().into();
            json_of(true, &json!({ "limit": limit, "changed": changed, "left_s": left }))
        }
        Ok(Err(error)) => {
            let (status, error) = refusal(&error);
            refused(status, &error)
        }
        Err(_) => refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "Redis did not answer in time: it may have been done all the same",
        ),
    }
}
