//! Versions side by side on one Redis: daemons and workers of an earlier one, of this one, and of a newer schema.

use std::time::Duration;

use redis::{Script, Value};
use topup_wire::{
    namespace::Namespace,
    schema::{NewerSchema, SCHEMA},
    scripts::{self, Health},
};

use super::sources;
use crate::server::Redis;

const GOOD_FOR: Duration = Duration::from_secs(60);
/// Scripts from before there was a schema.
const EARLIER_HEARTBEAT: &str = include_str!("../earlier/heartbeat.lua");
const EARLIER_POLL: &str = include_str!("../earlier/poll.lua");

/// The heartbeat of this version, by its id.
async fn beat(redis: &mut Redis, id: &str) -> Option<NewerSchema> {
    let beat = scripts::heartbeat(&mut redis.connection, id, GOOD_FOR, &Health::default()).await.unwrap();
    beat.newer_schema
}

/// The heartbeat of a version with this schema. Its script has another text.
async fn beat_of(redis: &mut Redis, id: &str, schema: u64) -> [i64; 3] {
    let namespace = Namespace::default();
    let script = Script::new(&(sources::text_of("heartbeat") + "-- of another version\n"));
    let mut call = script.key(namespace.daemons());
    call.key(namespace.generation()).key(namespace.daemon_details(id)).key(namespace.schema());
    call.key(namespace.claims()).key(namespace.owners());
    call.arg(id).arg(60_000_000).arg(schema).arg("owner").arg("another");
    let (now, generation, schema, _, _): (i64, i64, i64, String, String) = redis.call(&call).await;
    [now, generation, schema]
}

async fn schema(redis: &mut Redis) -> Option<String> {
    redis.ask(&["GET", &Namespace::default().schema()]).await
}

#[tokio::test]
async fn a_daemon_of_an_older_schema_writes_nothing_and_a_worker_is_told() {
    let mut redis = Redis::start().await;
    assert_eq!(beat(&mut redis, "ours").await, None);
    assert_eq!(schema(&mut redis).await, Some(SCHEMA.to_string()));
    assert_eq!(scripts::poll(&mut redis.connection).await.unwrap().newer_schema, None);

    let newer = SCHEMA + 1;
    beat_of(&mut redis, "newer", newer).await;
    assert_eq!(schema(&mut redis).await, Some(newer.to_string()));
    let before = redis.keyspace().await;
    assert_eq!(beat(&mut redis, "ours").await, NewerSchema::of(newer));
    assert_eq!(beat(&mut redis, "other").await.map(NewerSchema::number), Some(newer));
    assert_eq!(redis.keyspace().await, before);
    let polled = scripts::poll(&mut redis.connection).await.unwrap();
    assert_eq!((polled.newer_schema, polled.daemons), (NewerSchema::of(newer), 2));

    // It is gone, with all it wrote.
    redis.ask::<()>(&["DEL", &Namespace::default().schema()]).await;
    assert_eq!(beat(&mut redis, "ours").await, None);
    assert_eq!(schema(&mut redis).await, Some(SCHEMA.to_string()));
    // An older one beside this one does not lower it.
    assert_eq!(beat_of(&mut redis, "older", SCHEMA - 1).await[2], SCHEMA as i64);
    assert_eq!(schema(&mut redis).await, Some(SCHEMA.to_string()));
}

#[tokio::test]
async fn daemons_and_workers_from_before_there_was_a_schema_work_beside_this_version() {
    let mut redis = Redis::start().await;
    let namespace = Namespace::default();
    let script = Script::new(EARLIER_HEARTBEAT);
    let mut earlier = script.key(namespace.daemons());
    earlier.key(namespace.generation()).key(namespace.daemon_details("earlier"));
    earlier.arg("earlier").arg(60_000_000).arg("version").arg("0.0.1");
    // A worker of this version with an earlier daemon.
    redis.call::<Value>(&earlier).await;
    let polled = scripts::poll(&mut redis.connection).await.unwrap();
    assert_eq!((polled.daemons, polled.newer_schema, schema(&mut redis).await), (1, None, None));
    // Daemons of both, and a worker of the earlier one.
    assert_eq!(beat(&mut redis, "ours").await, None);
    redis.call::<Value>(&earlier).await;
    let alive = scripts::daemons(&mut redis.connection).await.unwrap();
    let mut ids: Vec<_> = alive.iter().map(|daemon| daemon.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["earlier", "ours"]);
    let script = Script::new(EARLIER_POLL);
    let mut poll = script.key(namespace.daemons());
    let [now, generation, alive] = redis.call::<[i64; 3]>(poll.key(namespace.generation())).await;
    assert_eq!((now > 0, generation, alive), (true, -1, 2));
}

#[tokio::test]
async fn junk_in_place_of_a_schema_is_no_schema_and_is_replaced() {
    let mut redis = Redis::start().await;
    let key = Namespace::default().schema();
    for junk in ["", "junk", "-1", "1.5", "2x", "inf", "0x99", " 2"] {
        redis.ask::<()>(&["SET", &key, junk]).await;
        assert_eq!(scripts::poll(&mut redis.connection).await.unwrap().newer_schema, None, "{junk:?}");
        assert_eq!(beat(&mut redis, "ours").await, None, "{junk:?}");
        assert_eq!(schema(&mut redis).await, Some(SCHEMA.to_string()), "{junk:?}");
    }
    redis.ask::<()>(&["DEL", &key]).await;
    redis.ask::<u64>(&["LPUSH", &key, "2"]).await;
    assert_eq!(scripts::poll(&mut redis.connection).await.unwrap().newer_schema, None);
    assert_eq!(beat(&mut redis, "ours").await, None);
    assert_eq!(schema(&mut redis).await, Some(SCHEMA.to_string()));
    // Beyond all numbers, but a number.
    redis.ask::<()>(&["SET", &key, &"9".repeat(400)]).await;
    assert!(scripts::poll(&mut redis.connection).await.unwrap().newer_schema.is_some());
    assert!(beat(&mut redis, "ours").await.is_some());
}
