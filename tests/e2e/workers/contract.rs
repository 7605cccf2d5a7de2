//! Takes and all other operations on one bucket.

use std::time::Duration;

use tokio::time::sleep;
use topup::{Bucket, Client, Decision};
use topup_tests::{SOON, Stalls, clock, eventually};

use super::fixture::{Fixture, now, patient};

const MINUTE: Duration = Duration::from_secs(60);
/// A first take may note the instant at which its bucket is full so much too late.
const LATE: Duration = Duration::from_millis(3);

const CONFIG: &str = r#"
[limit]
slow = { capacity = 3, rate = "1/60s" }
wide = { capacity = 10, rate = "1/60s" }
quick = { capacity = 2, rate = "1/250ms" }
steady = { capacity = 20, rate = "10/s" }
"#;

/// A client is shared by the tasks of a worker as it is, and its calls may move between threads.
const fn shared<T: Clone + Send + Sync>() {}
const _: () = {
    shared::<Client>();
    shared::<Bucket>();
    shared::<Decision>();
};

/// A task holds the future that it awaits, and a large one is slow to move. Few limits have plans, whose futures are boxed.
#[tokio::test]
async fn what_a_task_awaits_is_small() {
    let fixture = Fixture::set(CONFIG).await;
    let [slow, wide] = ["slow", "wide"].map(|name| fixture.bucket(name));
    let both = || [(slow.clone(), 1), (wide.clone(), 1)];
    let sizes = [
        ("take", size_of_val(&slow.take(1)), 512),
        ("wait", size_of_val(&slow.wait(1, MINUTE)), 1_024),
        ("take_all", size_of_val(&fixture.topup.take_all(both())), 4_096),
        ("peek", size_of_val(&slow.peek()), 4_096),
        ("refund", size_of_val(&slow.refund(1)), 4_096),
        ("reserve_cost", size_of_val(&slow.reserve_cost(1)), 4_096),
    ];
    for (call, size, most) in sizes {
        println!("{call}: {size} bytes");
        assert!(size <= most, "{call}: {size} bytes");
    }
}

#[tokio::test]
async fn each_take_leaves_one_less_until_there_is_none() {
    let fixture = Fixture::set(CONFIG).await;
    let slow = fixture.bucket("slow");
    for remaining in [2, 1, 0] {
        assert_eq!(slow.take(1).await.unwrap(), Decision::Allowed { remaining, capacity: 3 });
    }
    let denied = slow.take(1).await.unwrap();
    assert!(!denied.is_allowed());
    assert_eq!((denied.remaining(), denied.capacity()), (0, 3));
    let wait = denied.retry_after().unwrap();
    assert!(wait <= MINUTE + LATE && wait > MINUTE / 2, "{wait:?}");
}

#[tokio::test]
async fn a_take_of_many_is_all_or_nothing() {
    let fixture = Fixture::set(CONFIG).await;
    let wide = fixture.bucket("wide");
    assert_eq!(wide.take(7).await.unwrap().remaining(), 3);
    let denied = wide.take(5).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.remaining()), (false, 3));
    let wait = denied.retry_after().unwrap();
    assert!(wait <= 2 * MINUTE + LATE && wait > MINUTE, "two more tokens: {wait:?}");
    assert_eq!(wide.take(3).await.unwrap().remaining(), 0, "what there is can still be taken");
}

#[tokio::test]
async fn a_denial_from_memory_counts_down_and_says_more_for_more() {
    let fixture = Fixture::set(CONFIG).await;
    let wide = fixture.bucket("wide");
    assert!(wide.take(10).await.unwrap().is_allowed());
    let [one, again, two] = [wide.take(1).await, wide.take(1).await, wide.take(2).await]
        .map(|told| told.unwrap().retry_after().unwrap());
    assert!(again <= one, "{again:?} after {one:?}");
    assert!(two > one && two <= one + MINUTE, "{two:?} for two, {one:?} for one");
}

#[tokio::test]
async fn a_denied_take_is_allowed_when_it_was_said_to_be() {
    let fixture = Fixture::set(CONFIG).await;
    let quick = fixture.bucket("quick");
    // The clock that buckets go by. The machine's may be corrected while the test runs.
    let from = now(&fixture.redis).await;
    assert!(quick.take(2).await.unwrap().is_allowed());
    let mut told = Vec::new();
    for token in 1..=4 {
        // A machine that stands still may find the token there already.
        if let Some(wait) = quick.take(1).await.unwrap().retry_after() {
            assert!(wait <= Duration::from_millis(250), "{wait:?}");
            // The promise under test: the wait of a caller that does as it is told.
            sleep(wait).await;
            let decided = quick.take(1).await.unwrap();
            told.push((wait, decided));
            assert!(decided.is_allowed(), "token {token}: {told:?}");
        }
    }
    let took = now(&fixture.redis).await - from;
    assert!(took >= 990_000, "four tokens take a second, not {took} µs: {told:?}");
}

/// Empties a bucket of 20 at 10 a second. Each token is then promised for the instant at which it is due: never earlier,
/// and no later from one token to the next. On a busy machine, replies are slow, Redis's time is known less well, and all
/// promises are late by that.
pub(super) async fn assert_no_time_is_lost(bucket: &Bucket) {
    /// Between the instant of Redis and ours, for a first take, which is known to the ms, and for clocks that drift.
    const SLACK: u64 = 4_000;
    let stalls = Stalls::watch();
    let first = clock::now();
    assert!(bucket.take(20).await.unwrap().is_allowed());
    let last = clock::now();
    let (mut taken, mut least_late) = (0, [u64::MAX; 2]);
    while taken < 15 {
        let sent = clock::now();
        let told = bucket.take(1).await.unwrap();
        let received = clock::now();
        let Some(wait) = told.retry_after() else {
            taken += 1;
            continue;
        };
        let (due, wait) = ((taken + 1) * 100_000, wait.as_micros() as u64);
        // A stall of the machine makes some promises late. Time that is lost with each token makes all of the later ones late.
        let late = &mut least_late[usize::from(taken >= 7)];
        *late = (*late).min((sent + wait).saturating_sub(last + due));
        assert!(received + wait + SLACK >= first + due, "token {taken} comes early");
        // The wait of a caller that does as it is told.
        sleep(told.retry_after().unwrap()).await;
    }
    let [of_first, of_last] = least_late;
    if stalls.below(Duration::from_millis(50), "no time is lost") {
        assert!(
            of_last.saturating_sub(of_first) <= SLACK,
            "each of the last eight tokens is {of_last} µs late at least, one of the first {of_first}"
        );
    }
}

#[tokio::test]
async fn no_time_is_lost_between_tokens() {
    let fixture = Fixture::set(CONFIG).await;
    assert_no_time_is_lost(&fixture.bucket("steady")).await;
}

#[tokio::test]
async fn a_look_changes_nothing() {
    let fixture = Fixture::set(CONFIG).await;
    let slow = fixture.bucket("slow");
    assert_eq!(slow.peek().await.unwrap(), Decision::Allowed { remaining: 3, capacity: 3 });
    assert_eq!(fixture.bucket_keys().await, [""; 0], "a full bucket that was looked at has no key");
    assert!(slow.take(2).await.unwrap().is_allowed());
    for _ in 0..2 {
        assert_eq!(slow.peek().await.unwrap(), Decision::Allowed { remaining: 1, capacity: 3 });
    }
    assert!(slow.take(1).await.unwrap().is_allowed());
    let told = slow.peek().await.unwrap();
    assert!(told.retry_after().is_some_and(|wait| wait <= MINUTE), "{told:?}");
}

#[tokio::test]
async fn a_refund_fills_no_further_than_the_brim() {
    let fixture = Fixture::set(CONFIG).await;
    let wide = fixture.bucket("wide");
    assert!(wide.take(6).await.unwrap().is_allowed());
    assert_eq!(wide.refund(2).await.unwrap(), 6);
    assert_eq!(wide.peek().await.unwrap().remaining(), 6);
    assert_eq!(wide.refund(1 << 53).await.unwrap(), 10);
    // A bucket that was filled by hand keeps a key for a second.
    eventually(SOON, async || fixture.bucket_keys().await.is_empty()).await;
    assert_eq!(wide.refund(1).await.unwrap(), 10, "nor does a full bucket get fuller");
    assert_eq!(wide.take(10).await.unwrap().remaining(), 0);
}

#[tokio::test]
async fn a_refund_and_a_reset_end_a_denial_that_is_remembered() {
    let fixture = Fixture::set(CONFIG).await;
    let slow = fixture.bucket("slow");
    assert!(slow.take(3).await.unwrap().is_allowed());
    assert!(!slow.take(1).await.unwrap().is_allowed());
    slow.refund(1).await.unwrap();
    assert!(slow.take(1).await.unwrap().is_allowed());
    assert!(!slow.take(1).await.unwrap().is_allowed());
    slow.reset().await.unwrap();
    eventually(SOON, async || fixture.bucket_keys().await.is_empty()).await;
    assert_eq!(slow.take(1).await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn a_token_that_one_client_takes_is_gone_for_all() {
    let fixture = Fixture::set(CONFIG).await;
    let other = patient(fixture.redis.url()).await;
    assert!(fixture.bucket("slow").take(1).await.unwrap().is_allowed());
    let clone = fixture.topup.clone();
    let taken = tokio::spawn(async move { clone.limit("slow").take(1).await });
    assert!(taken.await.unwrap().unwrap().is_allowed());
    assert_eq!(other.limit("slow").take(1).await.unwrap().remaining(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn takes_at_once_share_what_there_is() {
    let fixture = Fixture::set(CONFIG).await;
    let mut takes = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let wide = fixture.bucket("wide");
        takes.spawn(async move { wide.take(1).await.unwrap().is_allowed() });
    }
    let allowed = takes.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(allowed, 10);
}

#[tokio::test]
async fn a_client_that_is_dropped_leaves_no_connection() {
    let fixture = Fixture::set(CONFIG).await;
    let connections = async || fixture.redis.ask::<String>(&["CLIENT", "LIST"]).await.lines().count();
    let before = connections().await;
    let other = patient(fixture.redis.url()).await;
    let bucket = other.limit("slow");
    drop(other);
    assert!(bucket.take(1).await.unwrap().is_allowed(), "a bucket keeps its client");
    assert_eq!(connections().await, before + 2, "one for takes, one for all else");
    drop(bucket);
    eventually(SOON, async || connections().await == before).await;
}
