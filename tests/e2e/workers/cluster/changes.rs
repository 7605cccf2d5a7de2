//! Limits are published, changed and removed on every node.

use topup_tests::{SOON, eventually, none_left};
use topup_wire::{keyspace::ShardKeys, limit::LimitName, namespace::Namespace};

use super::Fixture;

const ALGORITHMS: [&str; 4] = ["token-bucket", "lazy-token-bucket", "gcra", "leaky-bucket"];

fn config(algorithm: &str, capacity: u64) -> String {
    format!(
        "[limit.user]\nkeyed = true\nshards = 12\ncapacity = {capacity}\nrate = \"1/60s\"\nalgorithm = \"{algorithm}\"\n\
         [limit.other]\ncapacity = 3\nrate = \"1/60s\"\n"
    )
}

// === impl Fixture ===

impl Fixture {
    /// Has the daemon apply another configuration, and waits until a field of every shard's record says so.
    async fn reload(&mut self, config: &str, field: &str, expected: &str) {
        self.daemon.reload(config);
        let name: LimitName = "user".parse().unwrap();
        for shard in 0..12 {
            let record = ShardKeys::new(Namespace::default(), &name, shard).record;
            let home = &self.cluster.masters()[self.cluster.home(&record).await].redis;
            eventually(SOON, async || {
                let found: Option<String> = home.ask(&["HGET", &record, field]).await;
                if found.as_deref() == Some(expected) { Ok(()) } else { Err(found) }
            })
            .await;
        }
    }
}

fn users() -> impl Iterator<Item = String> {
    (0..30).map(|i| i.to_string())
}

#[tokio::test]
async fn a_change_reaches_every_node_and_tokens_stay() {
    let mut fixture = Fixture::set(&config("token-bucket", 10)).await;
    for user in users() {
        assert!(fixture.bucket("user").key(user).take(4).await.unwrap().is_allowed());
    }
    fixture.reload(&config("token-bucket", 20), "capacity", "20").await;
    for user in users() {
        let bucket = fixture.bucket("user").key(user);
        let told = eventually(SOON, async || {
            let told = bucket.peek().await.unwrap();
            (told.capacity() == 20).then_some(told)
        })
        .await;
        assert_eq!(told.remaining(), 6);
    }
}

#[tokio::test]
async fn a_limit_that_is_removed_leaves_no_key_on_any_node() {
    let other = "[limit.other]\ncapacity = 3\nrate = \"1/60s\"\n";
    let of_each = ALGORITHMS.map(|algorithm| {
        let terms = "keyed = true\nshards = 12\ncapacity = 10\nrate = \"1/60s\"";
        format!("[limit.{algorithm}]\n{terms}\nalgorithm = \"{algorithm}\"\n")
    });
    let fixture = Fixture::set(&format!("{}{other}", of_each.concat())).await;
    for algorithm in ALGORITHMS {
        for user in users() {
            assert!(fixture.bucket(algorithm).key(user).take(4).await.unwrap().is_allowed());
        }
        for node in fixture.cluster.masters() {
            let buckets = format!("topup:{{{algorithm}:*}}:?:*");
            assert!(!node.redis.ask::<Vec<String>>(&["KEYS", &buckets]).await.is_empty(), "{algorithm}");
        }
    }
    fixture.daemon.reload(other);
    for algorithm in ALGORITHMS {
        none_left(SOON, async || fixture.cluster.keys(&format!("topup:{{{algorithm}:*")).await).await;
    }
}

#[tokio::test]
async fn another_algorithm_takes_over_on_every_node() {
    let mut fixture = Fixture::set(&config("gcra", 10)).await;
    for user in users() {
        assert!(fixture.bucket("user").key(user).take(4).await.unwrap().is_allowed());
    }
    fixture.reload(&config("leaky-bucket", 10), "algorithm", "leaky-bucket").await;
    for user in users() {
        assert_eq!(fixture.bucket("user").key(user).take(1).await.unwrap().remaining(), 9);
    }
    eventually(SOON, async || fixture.cluster.keys("topup:{user:*}:g:*").await.is_empty()).await;
}
