//! Keys that have expired are removed without Redis's own search for them.

use std::pin::pin;

use futures_util::{StreamExt, future::join_all};
use tokio::time::timeout;
use topup_embedded::RedisServer;
use topup_tests::{Redis, SOON, eventually};

use super::fixture::Fixture;

const KEYS: u64 = 2_000;

/// Numbers at rest, texts at rest, a script's values, and one that tells no instant at which a bucket is full.
const CONFIG: &str = r#"
[limit]
number = { keyed = true, capacity = 10, rate = "5/s" }
text = { keyed = true, capacity = 1, rate = "5/s" }
gcra = { keyed = true, algorithm = "gcra", capacity = 10, rate = "5/s" }
window = { keyed = true, algorithm = "sliding-counter", limit = 10, window = "1min" }
"#;

/// A Redis that removes expired keys only when a command names them.
async fn redis_without_a_search() -> Redis {
    // A Redis before 7.0 has no such option, and needs none.
    let asked: Vec<String> = Redis::start().await.ask(&["CONFIG", "GET", "enable-debug-command"]).await;
    let builder = RedisServer::builder();
    let builder = if asked.is_empty() { builder } else { builder.arg("--enable-debug-command", "yes") };
    let redis = Redis::with(builder).await;
    redis.ask::<()>(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]).await;
    redis
}

#[tokio::test]
async fn expired_keys_are_gone_before_redis_looks_for_them() {
    let mut fixture = Fixture::on(redis_without_a_search().await, CONFIG).await;
    // A daemon's slow sweep names keys, too.
    fixture.kill_daemon().await;
    // A key of several takes lives longer than the first one told.
    for (limit, takes) in [("number", 3), ("text", 1), ("gcra", 3)] {
        let before = fixture.redis.dbsize().await;
        let buckets: Vec<_> = (0..KEYS).map(|key| fixture.bucket(limit).key(key.to_string())).collect();
        for _ in 0..takes {
            let taken = join_all(buckets.iter().map(|bucket| bucket.take(1))).await;
            assert!(taken.iter().all(|decision| decision.as_ref().unwrap().is_allowed()), "{limit}");
        }
        // Few keys that expire at once are left to Redis. Here that is for ever.
        let most = before + KEYS / 10;
        eventually(SOON, async || {
            let keys = fixture.redis.dbsize().await;
            if keys <= most { Ok(()) } else { Err(format!("{limit}: {keys} keys, {before} before")) }
        })
        .await;
    }
}

/// A window's key is there when its bucket is full, too. To name it then removes nothing.
#[tokio::test]
async fn keys_that_live_on_are_not_named() {
    let mut fixture = Fixture::set(CONFIG).await;
    fixture.kill_daemon().await;
    let monitor = redis::Client::open(fixture.redis.url()).unwrap().get_async_monitor().await.unwrap();
    let mut commands = pin!(monitor.into_on_message::<String>());
    for limit in ["window", "gcra"] {
        let buckets: Vec<_> = (0..KEYS).map(|key| fixture.bucket(limit).key(key.to_string())).collect();
        let taken = join_all(buckets.iter().map(|bucket| bucket.take(1))).await;
        assert!(taken.iter().all(|decision| decision.as_ref().unwrap().is_allowed()), "{limit}");
    }
    // Keys are named in the order of their instants, and those of GCRA have the latest. Scripts name others.
    let named = async {
        loop {
            let command = commands.next().await.expect("Redis tells every command");
            if let Some((_, keys)) = command.split_once(r#" "EXISTS" "#)
                && !command.contains(" lua] ")
            {
                return keys.to_owned();
            }
        }
    };
    let keys = timeout(SOON, named).await.expect("expired keys are named");
    assert!(!keys.contains("window") && keys.contains("gcra"), "{keys}");
}
