//! One bucket, looked at without a change.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    reply::{Settled, Verdict},
};

use crate::report::{BucketError, BucketLocation, retry_after};

/// The longest time for the questions to Redis about one bucket.
pub(super) const LONGEST: Duration = Duration::from_secs(2);

/// The state of a bucket, or the reason why there is none.
pub(super) type Peeked = Result<Value, (StatusCode, String)>;

/// The bucket of `limit`, or of its `key`, after `operation`.
pub(super) async fn settle(
    connection: Connection,
    limit: String,
    key: Option<String>,
    operation: Operation,
) -> Peeked {
    let asked = async {
        let location = BucketLocation::find(connection, &limit, key.as_deref()).await?;
        let (settled, paused) = (location.settle(operation).await?, location.paused().await?);
        Ok::<_, BucketError>(describe(&settled, &location, key.as_deref(), paused))
    };
    match timeout(LONGEST, asked).await {
        Ok(Ok(bucket)) => Ok(bucket),
        Ok(Err(error)) => Err(refusal(&error)),
        Err(_) => Err((StatusCode::SERVICE_UNAVAILABLE, format!("Redis did not answer within {LONGEST:?}"))),
    }
}

fn describe(
    settled: &Settled,
    location: &BucketLocation,
    key: Option<&str>,
    paused: Option<Duration>,
) -> Value {
    let would_deny = settled.verdict != Verdict::Allowed || paused.is_some();
    let wait = paused.or_else(|| retry_after(settled)).map(|wait| wait.as_secs_f64() * 1e3);
    json!({
        "limit": location.limit.name.as_str(), "key": key,
        "plan": location.target().map(|target| target.to_string()), "tokens": settled.tokens,
        "capacity": settled.capacity, "would_deny": would_deny,
        "retry_after_ms": wait, "mode": location.mode.as_str(), "paused": paused.is_some(),
    })
}

/// The status and the text of a refusal.
pub(super) fn refusal(error: &BucketError) -> (StatusCode, String) {
    match error {
        BucketError::Name(_)
        | BucketError::Key(_)
        | BucketError::ExceedsCapacity(..)
        | BucketError::HasNoBucket(..)
        | BucketError::HasPermits(_) => (StatusCode::BAD_REQUEST, error.to_string()),
        BucketError::NeedsKey(name) => {
            (StatusCode::BAD_REQUEST, format!("{error}: ask for /buckets/{name}/KEY"))
        }
        BucketError::HasNoKeys(name) => {
            (StatusCode::BAD_REQUEST, format!("{error}: ask for /buckets/{name}"))
        }
        BucketError::Unpublished(_) => (StatusCode::NOT_FOUND, error.to_string()),
        BucketError::Changed(_) | BucketError::NewerSchema(_) | BucketError::Redis(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
    }
}
