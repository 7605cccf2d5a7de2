//! The slow sweep: counters that are no bucket of any limit go, all others stay.

use topup_tests::{Redis, SOON, Signal, eventually};

use super::{bucket::Bucket, ready};

const LIMIT: &str = "[limit.user]\nkeyed = true\nshards = 1\ncapacity = 10\nrate = \"1/h\"\n";

#[tokio::test]
async fn counters_of_late_commands_are_removed() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMIT, &redis).await;
    let (counting, at_rest) =
        (Bucket::keyed(&redis, "user", "alice", 1), Bucket::keyed(&redis, "user", "bob", 1));
    assert!(counting.take(5).await.counting);
    assert!(!at_rest.take(1).await.counting);
    daemon.end(Signal::TERM, SOON).await;
    // Keys of a full bucket, of a removed shard and of a removed limit. The last of them would expire much later.
    let late = Bucket::keyed(&redis, "user", "carol", 1);
    late.decrement(1).await;
    for key in ["topup:{user:1}:b:carol", "topup:{gone:0}:b:"] {
        redis.ask::<i64>(&["DECR", key]).await;
    }
    redis.ask::<()>(&["SET", "topup:{gone:0}:b:dave", "f00013", "PX", "3600000"]).await;
    let _daemon = ready(LIMIT, &redis).await;
    eventually(SOON, async || {
        let mut found: Vec<String> = redis.ask(&["KEYS", "topup:{*}:b:*"]).await;
        found.sort();
        if found == [counting.counter(), at_rest.counter()] { Ok(()) } else { Err(found) }
    })
    .await;
    assert_eq!((counting.peek().await.tokens, at_rest.peek().await.tokens), (5, 9));
}
