//! Refunds beside what a worker still has to tell Redis of its own takes.

use topup_tests::{SOON, eventually};

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
