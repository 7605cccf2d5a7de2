//! Expired keys of a cluster are named to the node of each, those of one hash slot at a time.

use futures_util::future::join_all;
use topup_tests::{SOON, Signal, eventually};

use super::Fixture;

const CONFIG: &str = r#"
[limit]
user = { keyed = true, shards = 16, capacity = 10, rate = "5/s" }
"#;

#[tokio::test]
async fn every_node_is_told_of_its_own_expired_keys() {
    let mut fixture = Fixture::set(CONFIG).await;
    // Its scripts call the same command.
    fixture.daemon.end(Signal::KILL, SOON).await;
    for master in fixture.cluster.masters() {
        master.redis.reset_stats().await;
    }
    let buckets: Vec<_> = (0..4_000).map(|key| fixture.bucket("user").key(key.to_string())).collect();
    let taken = join_all(buckets.iter().map(|bucket| bucket.take(1))).await;
    assert!(taken.iter().all(|decision| decision.as_ref().unwrap().is_allowed()));
    for master in fixture.cluster.masters() {
        // A command with keys of several hash slots is refused, and does not count.
        eventually(SOON, async || master.redis.command_calls("exists").await > 0).await;
    }
}
