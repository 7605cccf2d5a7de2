//! Refunds beside what a worker still has to tell Redis of its own takes.

use topup_tests::{SOON, clock, eventually};
use topup_wire::{
    bucket::{Operation, Reservation},
    keyspace::ShardKeys,
    limit::Algorithm,
    namespace::Namespace,
    reply::Verdict,
    scripts,
};

use super::fixture::Fixture;

const CONFIG: &str = "[limit.user]\nkeyed = true\ncapacity = 3\nrate = \"1/60s\"\n";
const KEYS: u64 = 40;

/// A take at rest is followed by a command that lets its key live longer. A refund on another connection overtakes it.
#[tokio::test]
async fn a_refund_that_overtakes_the_end_of_a_take_is_kept() {
    let fixture = Fixture::set(CONFIG).await;
    for key in 0..KEYS {
        let bucket = fixture.bucket("user").key(key.to_string());
        let before = fixture.redis.command_calls("pexpireat").await;
        for left in [2, 1, 0] {
            assert_eq!(bucket.take(1).await.unwrap().remaining(), left, "key {key}");
        }
        assert_eq!(bucket.refund(1).await.unwrap(), 1, "key {key}");
        // The second and the third take lengthen the life of the key, in one command or in two.
        eventually(SOON, async || fixture.redis.command_calls("pexpireat").await > before).await;
        assert!(bucket.take(1).await.unwrap().is_allowed(), "key {key}");
        assert!(!bucket.take(1).await.unwrap().is_allowed(), "key {key}");
    }
}

/// A refund beside reserved tokens waits until these are used or given up, beyond the deadline of the call. Another one waits for
/// the same instant.
#[tokio::test]
async fn a_refund_waits_for_reserved_tokens() {
    const LONGEST: u64 = 1_000_000;
    let fixture = Fixture::set("[limit.api]\ncapacity = 20\nrate = \"10/s\"\n").await;
    let api = fixture.bucket("api");
    assert!(api.take(20).await.unwrap().is_allowed());
    let keys = ShardKeys::new(Namespace::default(), &"api".parse().unwrap(), 0);
    let reserve = Operation::Reserve(Reservation { count: 5, longest: LONGEST, ..Reservation::default() });
    let (mut conn, bucket) = (fixture.redis.connection(), Algorithm::TokenBucket);
    let reserved = scripts::settle(&mut conn, bucket, &keys, "", reserve, false, None).await.unwrap();
    assert_eq!((reserved.verdict, reserved.granted), (Verdict::Allowed, 5));
    let sent = clock::now();
    let (first, second) = tokio::join!(api.refund(4), api.refund(4));
    let took = clock::now() - sent;
    assert!(took > 250_000 && took + 10_000 > reserved.wait, "{took} µs of {} µs", reserved.wait);
    assert!(first.unwrap() + second.unwrap() >= 12, "4 and 8, and what came meanwhile");
}
