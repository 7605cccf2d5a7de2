//! Penalties, in virtual time: blocks begin after so many denied takes, grow, and are forgotten.

use std::time::Duration;

use redis::Cmd;
use topup_wire::{
    in_memory::InMemoryRedis,
    keyspace::ShardKeys,
    limit::{LimitName, Penalty},
    namespace::Namespace,
    scripts,
};

const SECOND: u64 = 1_000_000;

/// A key of the limit `login`, which is blocked after 5 denied takes within a minute: for 10 s, 30 s, 40 s.
struct Suspect {
    redis: InMemoryRedis,
    limit: LimitName,
}

impl Suspect {
    fn new() -> Self {
        let redis = InMemoryRedis::new(1_700_000_000 * SECOND);
        Self { redis, limit: "login".parse().unwrap() }
    }

    /// Publishes just enough of a record.
    async fn publish(&self) {
        let mut direct = self.redis.direct(Namespace::default());
        let record = ShardKeys::new(Namespace::default(), &self.limit, 0).record;
        Cmd::hset(record, "capacity", 1).exec_async(&mut direct).await.unwrap();
    }

    fn pass(&self, seconds: u64) {
        self.redis.set_now(self.redis.now() + seconds * SECOND);
    }

    /// The seconds for which `takes` denied takes block the key.
    async fn deny(&self, takes: u64) -> u64 {
        let [within, block, longest] = [60, 10, 40].map(Duration::from_secs);
        let penalty = Penalty::new(5, within, block, 3, longest).unwrap();
        let mut direct = self.redis.direct(Namespace::default());
        let denied = [("other".to_owned(), 1), ("eve }:limit".to_owned(), takes)];
        let blocked = scripts::penalize(&mut direct, &self.limit, penalty, &denied).await.unwrap();
        // The other key has a count of its own.
        blocked.iter().find(|(key, _)| *key != "other").map_or(0, |(_, block)| block.as_secs())
    }
}

#[tokio::test]
async fn denied_takes_within_the_time_block_a_key_longer_each_time() {
    let eve = Suspect::new();
    assert_eq!(eve.deny(9).await, 0, "a limit that is gone blocks nobody");
    eve.publish().await;
    assert_eq!(eve.deny(4).await, 0);
    eve.pass(60);
    assert_eq!(eve.deny(4).await, 0, "the first four are too old");
    eve.pass(59);
    assert_eq!(eve.deny(1).await, 10);
    eve.pass(9);
    assert_eq!(eve.deny(100).await, 0, "it is blocked already");
    eve.pass(1);
    assert_eq!(eve.deny(4).await, 0, "what was denied within the block does not count");
    assert_eq!(eve.deny(1).await, 30, "three times as long");
    eve.pass(30);
    assert_eq!(eve.deny(50).await, 40, "the longest");
    eve.pass(40 + 60);
    assert_eq!(eve.deny(5).await, 10, "free for as long as the last block, it begins anew");
    // Its time to count is longer than that, and single denied takes prolong what is known of it.
    eve.pass(10 + 6);
    assert_eq!(eve.deny(1).await, 0);
    eve.pass(4);
    assert_eq!(eve.deny(4).await, 10, "free for as long as the last block");
    eve.pass(10 + 9);
    assert_eq!(eve.deny(5).await, 30, "not yet");
}

#[tokio::test]
async fn a_key_begins_anew_after_its_last_block_and_as_much_time_again_though_it_is_denied_meanwhile() {
    let eve = Suspect::new();
    eve.publish().await;
    assert_eq!(eve.deny(5).await, 10);
    eve.pass(19);
    assert_eq!(eve.deny(1).await, 0);
    eve.pass(59);
    assert_eq!(eve.deny(4).await, 10, "it was free for 68 s");
}

#[tokio::test]
async fn a_block_is_told_again_for_five_seconds_until_a_worker_says_that_the_key_is_blocked() {
    for says_so in [false, true] {
        let eve = Suspect::new();
        eve.publish().await;
        assert_eq!(eve.deny(5).await, 10);
        if says_so {
            assert_eq!(eve.deny(0).await, 0);
        }
        eve.pass(4);
        assert_eq!(eve.deny(1).await, if says_so { 0 } else { 6 }, "the first end");
        eve.pass(1);
        assert_eq!(eve.deny(1).await, 0);
        eve.pass(5);
        assert_eq!(eve.deny(4).await, 0, "no take within the block counts");
        assert_eq!(eve.deny(1).await, 30);
    }
}

#[tokio::test]
async fn junk_begins_anew_and_nothing_is_left() {
    let eve = Suspect::new();
    eve.publish().await;
    let mut direct = eve.redis.direct(Namespace::default());
    let key = "topup:{login:0}:penalty:eve }:limit";
    Cmd::set(key, "junk").exec_async(&mut direct).await.unwrap();
    assert_eq!(eve.deny(5).await, 10);
    eve.pass(10);
    for (field, junk) in [("until", "x"), ("anew", "x"), ("blocks", "inf")] {
        Cmd::hset(key, field, junk).exec_async(&mut direct).await.unwrap();
    }
    assert_eq!(eve.deny(5).await, 10);
    Cmd::hset(key, "blocks", "inf").exec_async(&mut direct).await.unwrap();
    eve.pass(10);
    assert_eq!(eve.deny(5).await, 40);
    eve.pass(81);
    let left: u64 = Cmd::exists(key).query_async(&mut direct).await.unwrap();
    assert_eq!(left, 0);
}
