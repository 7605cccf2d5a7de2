//! Pauses hold for as long as told, and leave nothing behind.

use std::time::Duration;

use redis::Script;
use topup_wire::{
    limit::LimitName,
    namespace::Namespace,
    scripts::{self, LONGEST_PAUSE, MOST_PAUSES, Pause, PauseReply},
};

use crate::server::Redis;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn name(name: &str) -> LimitName {
    name.parse().unwrap()
}

/// Name, key and seconds left of each pause, as `paused` lists them.
async fn paused(redis: &mut Redis) -> Vec<(String, Option<String>, u64)> {
    let now = scripts::now(&mut redis.connection).await.unwrap();
    let all = scripts::paused(&mut redis.connection).await.unwrap();
    let seconds = |until: u64| until.saturating_sub(now).div_ceil(1_000_000);
    let row = |Pause { limit, key, until }| (limit.to_string(), key, seconds(until));
    all.pauses.into_iter().map(row).collect()
}

/// The version that a control poll tells.
async fn version(redis: &mut Redis) -> u64 {
    let polled = scripts::poll(&mut redis.connection).await.unwrap().paused;
    let listed = scripts::paused(&mut redis.connection).await.unwrap().version;
    assert_eq!(polled, listed);
    polled
}

#[tokio::test]
async fn a_pause_grows_and_never_shrinks_until_it_is_ended() {
    let mut redis = Redis::start().await;
    let (api, user) = (name("api"), name("user"));
    assert_eq!(version(&mut redis).await, 0);
    let reply = scripts::pause(&mut redis.connection, &api, None, MINUTE).await.unwrap();
    assert_eq!(reply, PauseReply { left: Some(MINUTE), changed: true });
    let first = version(&mut redis).await;
    assert!(first > 0);

    // A shorter one changes nothing, and workers need not read it.
    let shorter = scripts::pause(&mut redis.connection, &api, None, MINUTE / 2).await.unwrap();
    assert!(!shorter.changed && shorter.left.unwrap() > MINUTE / 2, "{shorter:?}");
    assert_eq!(version(&mut redis).await, first);
    let longer = scripts::pause(&mut redis.connection, &api, None, HOUR).await.unwrap();
    assert_eq!(longer, PauseReply { left: Some(HOUR), changed: true });
    let second = version(&mut redis).await;
    assert!(second > first);

    // Keys are paused beside their limit, whatever text they are.
    for key in ["alice", "a:b", ":", "", "user:x", "\u{1f600}"] {
        scripts::pause(&mut redis.connection, &user, Some(key), MINUTE).await.unwrap();
    }
    let all = paused(&mut redis).await;
    assert_eq!(all.len(), 7);
    assert!(
        all.contains(&("api".into(), None, 3_600)) && all.contains(&("user".into(), Some("a:b".into()), 60))
    );
    let ended = scripts::resume(&mut redis.connection, &user, None).await.unwrap();
    assert!(!ended.changed, "keys keep their pauses");
    assert!(scripts::resume(&mut redis.connection, &user, Some("a:b")).await.unwrap().changed);
    assert_eq!(paused(&mut redis).await.len(), 6);
    assert!(scripts::resume_all(&mut redis.connection, &user).await.unwrap().changed);
    assert_eq!(paused(&mut redis).await.len(), 1);
    assert!(scripts::resume(&mut redis.connection, &api, None).await.unwrap().changed);
    assert_eq!((version(&mut redis).await, redis.keyspace().await.len()), (0, 0));
}

#[tokio::test]
async fn no_pause_is_longer_than_a_day_or_than_told_and_its_key_expires() {
    let mut redis = Redis::start().await;
    let (api, key) = (name("api"), Namespace::default().pauses());
    let reply = scripts::pause(&mut redis.connection, &api, None, Duration::MAX).await.unwrap();
    assert_eq!(reply.left, Some(LONGEST_PAUSE));
    scripts::resume(&mut redis.connection, &api, None).await.unwrap();
    scripts::pause(&mut redis.connection, &api, Some("a"), HOUR).await.unwrap();
    scripts::pause(&mut redis.connection, &api, Some("b"), MINUTE).await.unwrap();
    let lives: u64 = redis.ask(&["PTTL", &key]).await;
    assert!((3_590_000..=3_600_001).contains(&lives), "{lives}: that of the longest");
    scripts::resume(&mut redis.connection, &api, Some("a")).await.unwrap();
    let lives: u64 = redis.ask(&["PTTL", &key]).await;
    assert!(lives <= 60_001, "{lives}: that of the longest left");
    // An end in the past is none, whatever lived on.
    redis.ask::<()>(&["ZADD", &key, "1000", "api:b"]).await;
    let reply = scripts::pause(&mut redis.connection, &api, Some("c"), MINUTE).await.unwrap();
    assert_eq!(reply.left, Some(MINUTE));
    assert_eq!(paused(&mut redis).await.len(), 1);
    let none = scripts::pause(&mut redis.connection, &api, Some("d"), Duration::ZERO).await.unwrap();
    assert_eq!(none.left, Some(Duration::ZERO));
}

#[tokio::test]
async fn there_is_room_for_so_many_and_one_more_is_refused_but_not_one_that_is_there() {
    let mut redis = Redis::start().await;
    let (user, key) = (name("user"), Namespace::default().pauses());
    let now = scripts::now(&mut redis.connection).await.unwrap();
    let mut many = redis::Cmd::new();
    many.arg("ZADD").arg(&key);
    for i in 0..MOST_PAUSES {
        many.arg(now + 60_000_000 + i as u64).arg(format!("user:{i}"));
    }
    many.exec_async(&mut redis.connection).await.unwrap();
    let full = scripts::pause(&mut redis.connection, &user, Some("more"), MINUTE).await.unwrap();
    assert_eq!(full, PauseReply { left: None, changed: false });
    assert_eq!(paused(&mut redis).await.len(), MOST_PAUSES);
    assert!(scripts::pause(&mut redis.connection, &user, Some("7"), HOUR).await.unwrap().changed);
    scripts::resume(&mut redis.connection, &user, Some("8")).await.unwrap();
    assert!(scripts::pause(&mut redis.connection, &user, Some("more"), MINUTE).await.unwrap().changed);
    assert!(version(&mut redis).await > 0);
}

#[tokio::test]
async fn the_version_rises_whatever_the_clock_does_and_junk_pauses_nothing() {
    let mut redis = Redis::start().await;
    let (api, key) = (name("api"), Namespace::default().pauses());
    scripts::pause(&mut redis.connection, &api, None, MINUTE).await.unwrap();
    // As if the clock had been an hour ahead.
    let ahead = version(&mut redis).await + 3_600_000_000;
    redis.ask::<()>(&["ZADD", &key, &ahead.to_string(), ""]).await;
    scripts::pause(&mut redis.connection, &api, None, HOUR).await.unwrap();
    assert_eq!(version(&mut redis).await, ahead + 1);
    assert_eq!(paused(&mut redis).await.len(), 1);

    redis.ask::<()>(&["ZADD", &key, "inf", "no limit:x", "-inf", "a b", "9e99", "\u{7f}"]).await;
    assert_eq!(paused(&mut redis).await.len(), 1, "no names of limits");
    redis.ask::<()>(&["DEL", &key]).await;
    redis.ask::<()>(&["RPUSH", &key, "not ours"]).await;
    assert_eq!(scripts::poll(&mut redis.connection).await.unwrap().paused, 0);
    assert!(scripts::paused(&mut redis.connection).await.is_err());
    scripts::pause(&mut redis.connection, &api, None, MINUTE).await.unwrap();
    assert_eq!(paused(&mut redis).await, [("api".to_owned(), None, 60)]);
}

#[tokio::test]
async fn a_poll_of_a_user_without_the_right_to_pauses_goes_on_without_them() {
    let mut redis = Redis::start().await;
    let namespace = Namespace::default();
    scripts::pause(&mut redis.connection, &name("api"), None, MINUTE).await.unwrap();
    let whole = version(&mut redis).await;
    let mut user = vec!["ACL", "SETUSER", "default", "resetkeys"];
    let keys = [namespace.daemons(), namespace.generation(), namespace.schema()].map(|key| format!("~{key}"));
    user.extend(keys.iter().map(String::as_str));
    // Redis 6.2 knows the rights of keys, but not those to read only.
    redis.ask::<()>(&user).await;
    let polled = scripts::poll(&mut redis.connection).await.unwrap();
    assert_eq!((polled.paused, whole > 0), (0, true));
    let refused =
        Script::new("return 1").key(namespace.pauses()).invoke_async::<i64>(&mut redis.connection).await;
    assert!(scripts::is_not_permitted(&refused.unwrap_err()));
}
