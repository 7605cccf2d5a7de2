//! One bucket, looked at without a change.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    keyspace::{ShardKeys, shard_of},
    limit::{Key, LimitName},
    namespace::InNamespace,
    reply::Verdict,
    scripts,
};

/// The longest time for the questions to Redis.
const LONGEST: Duration = Duration::from_secs(2);

/// The state of a bucket, or the reason why there is none.
pub(super) type Peeked = Result<Value, (StatusCode, String)>;

/// The bucket of `limit`, or of its `key`.
pub(super) async fn peek(connection: Connection, limit: String, key: Option<String>) -> Peeked {
    let asked = timeout(LONGEST, ask(connection, &limit, key.as_deref())).await;
    asked.unwrap_or_else(|_| Err(away(format!("Redis did not answer within {LONGEST:?}"))))
}

async fn ask(mut connection: Connection, limit: &str, key: Option<&str>) -> Peeked {
    let wrong = |message: String| (StatusCode::BAD_REQUEST, message);
    let name: LimitName = limit.parse().map_err(|error| wrong(format!("{error}")))?;
    if let Some(key) = key {
        Key::new(key).map_err(|error| wrong(error.to_string()))?;
    }
    let failed = |error: redis::RedisError| away(format!("Redis: {error}"));
    if let Some(newer) = scripts::newer_schema(&mut connection).await.map_err(failed)? {
        return Err(away(newer.to_string()));
    }
    let published = scripts::read_limit(&mut connection, &name).await.map_err(failed)?;
    let unknown = || (StatusCode::NOT_FOUND, format!("no limit {name} is published"));
    let limit = published.ok_or_else(unknown)?.limit;
    let (member, shard) = match (key, limit.keyed) {
        (Some(key), true) => (key, shard_of(key, limit.shards)),
        (None, false) => ("", 0),
        (None, true) => return Err(wrong(format!("limit {name} is keyed: ask for /buckets/{name}/KEY"))),
        (Some(_), false) => {
            return Err(wrong(format!("limit {name} has one bucket for all: ask for /buckets/{name}")));
        }
    };
    let keys = ShardKeys::new(connection.namespace(), &name, shard);
    let (algorithm, peek) = (limit.algorithm, Operation::Peek(1));
    let settled = scripts::settle(&mut connection, algorithm, &keys, member, peek, false, 0).await;
    let settled = settled.map_err(failed)?;
    if settled.verdict == Verdict::Unknown {
        return Err(unknown());
    }
    let would_deny = settled.verdict != Verdict::Allowed;
    Ok(json!({
        "limit": name.as_str(), "key": key, "tokens": settled.tokens, "capacity": settled.capacity,
        "would_deny": would_deny, "retry_after_ms": would_deny.then(|| settled.wait as f64 / 1e3),
        "mode": limit.rollout.mode_for(key).as_str(),
    }))
}

fn away(message: String) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, message)
}
