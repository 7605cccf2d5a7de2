//! Limits that are not in force for all.

use std::time::Duration;

use tokio::time::timeout;
use topup::{Admission, Decision, Error, Take};
use topup_tests::{Cli, SOON, clock, eventually};

use super::fixture::{Fixture, briefly_patient, patient};

/// Three of each, and no more for an hour, under every way to decide that has one of its own.
fn config(mode: &str) -> String {
    format!(
        r#"
[limit.api]
capacity = 3
rate = "1/h"
mode = "{mode}"

[limit.user]
keyed = true
algorithm = "sliding-window"
limit = 3
window = "1h"
mode = "{mode}"

[limit.queue]
algorithm = "leaky-bucket"
capacity = 3
rate = "1/h"
mode = "{mode}"

[limit.firm]
capacity = 100
rate = "1/h"
"#
    )
}

#[tokio::test]
async fn a_shadow_takes_tokens_and_stops_no_caller() {
    let fixture = Fixture::set(&config("shadow")).await;
    for bucket in [fixture.bucket("api"), fixture.bucket("user").key("alice"), fixture.bucket("queue")] {
        for left in [2, 1, 0] {
            let told = bucket.take(1).await.unwrap();
            assert_eq!(told, Decision::Allowed { remaining: left, capacity: 3 });
            assert!(!told.would_deny());
        }
        for count in [1, 2] {
            let told = bucket.take(count).await.unwrap();
            let Decision::Shadowed { remaining: 0, capacity: 3, retry_after } = told else {
                panic!("{told:?}")
            };
            assert!(retry_after > Duration::from_secs(3_000) && told.retry_after().is_none(), "{told:?}");
            assert!(told.is_allowed() && told.would_deny());
        }
        assert!(matches!(bucket.peek().await.unwrap(), Decision::Shadowed { .. }));
        assert!(bucket.try_take().is_none_or(|told| told.is_allowed() && told.would_deny()));
        let begun = clock::now();
        assert!(bucket.wait(1, Duration::from_secs(4_000)).await.unwrap().would_deny());
        assert!(clock::now() - begun < 30_000_000, "nobody waits");
        assert!(matches!(
            bucket.take(4).await.unwrap(),
            Decision::Shadowed { retry_after: Duration::MAX, .. }
        ));
        assert!(matches!(bucket.take(0).await, Err(Error::InvalidCount { .. })), "the caller's mistake");
    }
}

#[tokio::test]
async fn a_limit_that_is_off_asks_nothing_of_redis() {
    let fixture = Fixture::set(&config("off")).await;
    let buckets = [fixture.bucket("api"), fixture.bucket("user").key("alice"), fixture.bucket("queue")];
    for bucket in &buckets {
        assert!(bucket.take(1).await.unwrap().is_allowed(), "which finds out that it is off");
    }
    let count = async |command: &str| fixture.redis.command_calls(command).await;
    let before = (count("decr").await, count("decrby").await);
    for bucket in &buckets {
        for _ in 0..9 {
            let full = Decision::Allowed { remaining: 3, capacity: 3 };
            assert_eq!(bucket.take(1).await.unwrap(), full);
            assert_eq!(bucket.take(9).await.unwrap(), full);
            assert_eq!(bucket.wait(2, SOON).await.unwrap(), full);
            assert_eq!(bucket.try_take(), Some(full));
            assert_eq!(bucket.peek().await.unwrap(), full);
            assert_eq!(bucket.refund(1).await.unwrap(), 3);
        }
    }
    let reserved = buckets[2].reserve(1, Duration::ZERO).await.unwrap();
    let full = Decision::Allowed { remaining: 3, capacity: 3 };
    assert_eq!((reserved.decision(), reserved.delay()), (full, Some(Duration::ZERO)));
    assert_eq!((count("decr").await, count("decrby").await), before);
    assert_eq!(fixture.bucket_keys().await, [""; 0]);
}

#[tokio::test]
async fn a_change_of_mode_reaches_running_workers_and_waiters() {
    let mut fixture = Fixture::set(&config("enforce")).await;
    let api = fixture.bucket("api");
    assert!(api.take(3).await.unwrap().is_allowed() && !api.take(1).await.unwrap().is_allowed());
    let waiting = tokio::spawn({
        let api = api.clone();
        async move { api.wait(1, Duration::from_secs(4_000)).await }
    });
    // It stands in line: the next one is told that its turn comes too late.
    fixture.reload(&config("shadow")).await;
    eventually(SOON, async || api.take(1).await.unwrap().is_allowed()).await;
    assert!(api.take(1).await.unwrap().would_deny());
    let told = timeout(SOON, waiting).await.expect("nobody waits any more").unwrap().unwrap();
    assert!(told.is_allowed() && told.would_deny(), "{told:?}");
    fixture.reload(&config("off")).await;
    eventually(SOON, async || !api.take(1).await.unwrap().would_deny()).await;
    fixture.reload(&config("enforce")).await;
    eventually(SOON, async || !api.take(1).await.unwrap().is_allowed()).await;
}

#[tokio::test]
async fn a_share_of_the_keys_is_enforced_and_stays_so() {
    let config = |percent: u32| {
        format!("[limit.user]\nkeyed = true\ncapacity = 1\nrate = \"1/h\"\nenforce_percent = {percent}\n")
    };
    let mut fixture = Fixture::set(&config(30)).await;
    let enforced = async |topup: &topup::Client| {
        let mut enforced = Vec::new();
        for key in (0..100).map(|i| format!("user {i}")) {
            let bucket = topup.limit("user").key(&key);
            let _ = bucket.take(1).await.unwrap();
            if !bucket.take(1).await.unwrap().is_allowed() {
                enforced.push(key);
            }
        }
        enforced
    };
    let some = enforced(&fixture.topup).await;
    assert!((15..=45).contains(&some.len()), "{some:?}");
    assert_eq!(enforced(&patient(fixture.redis.url()).await).await, some, "for every worker");
    fixture.reload(&config(60)).await;
    let added = (0..100).map(|i| format!("user {i}")).find(|key| !some.contains(key)).unwrap();
    eventually(SOON, async || enforced(&fixture.topup).await.len() > some.len()).await;
    let more = enforced(&fixture.topup).await;
    assert!(some.iter().all(|key| more.contains(key)) && more.len() < 100, "{added}: {more:?}");
}

#[tokio::test]
async fn of_several_limits_one_in_shadow_stops_no_caller() {
    let fixture = Fixture::set(&config("shadow")).await;
    let user = || fixture.bucket("user").key("alice");
    let takes = || [(fixture.bucket("firm"), 10), (fixture.bucket("api"), 1), (user(), 1)];
    for round in 1..=5_u64 {
        let multi = fixture.topup.take_all(takes()).await.unwrap();
        assert!(multi.is_allowed() && multi.denied_by().is_none() && multi.retry_after().is_none());
        let told: Vec<_> =
            multi.limits().iter().map(|level| (level.limit().to_owned(), level.decision())).collect();
        assert_eq!(told[0].1.remaining(), 100 - 10 * round);
        for (limit, decision) in &told[1..] {
            assert_eq!(
                (decision.remaining(), decision.would_deny()),
                (3_u64.saturating_sub(round), round > 3),
                "{limit}"
            );
        }
    }
    // One that is enforced denies: nothing is taken of those in shadow either.
    user().reset().await.unwrap();
    let multi = fixture.topup.take_all([(fixture.bucket("firm"), 60), (user(), 1)]).await.unwrap();
    assert_eq!(multi.denied_by().unwrap().limit(), "firm");
    assert_eq!(user().peek().await.unwrap().remaining(), 3);
    let admission = Admission::of(&fixture.topup).take(Take::of("api")).take(Take::of("queue").count(9));
    assert!(admission.wait(SOON).decide().await.unwrap().is_ok(), "more than it holds, in shadow");
}

#[tokio::test]
async fn a_queue_in_shadow_delays_no_caller() {
    let fixture = Fixture::set(&config("shadow")).await;
    let queue = fixture.bucket("queue");
    for _ in 0..3 {
        let reserved = queue.reserve(1, Duration::MAX).await.unwrap();
        assert_eq!(reserved.delay(), Some(Duration::ZERO), "{reserved:?}");
    }
    let reserved = queue.reserve(1, Duration::MAX).await.unwrap();
    let decision = reserved.decision();
    assert!(matches!(decision, Decision::Shadowed { remaining: 0, capacity: 3, .. }), "{reserved:?}");
    assert_eq!((reserved.delay(), reserved.retry_after()), (Some(Duration::ZERO), None));
}

#[tokio::test]
async fn a_shadow_stops_no_caller_while_redis_is_away() {
    let fixture = Fixture::set(&config("shadow")).await;
    let topup = briefly_patient(fixture.redis.url()).await;
    let (api, firm) = (topup.limit("api"), topup.limit("firm"));
    assert!(topup.limit("user").key("known").take(1).await.unwrap().is_allowed());
    assert!(api.take(3).await.unwrap().is_allowed() && firm.take(1).await.unwrap().is_allowed());
    fixture.redis.server.pause().unwrap();
    let allowed = Decision::Allowed { remaining: 3, capacity: 3 };
    let unknown = topup.limit("user").key("never seen");
    assert_eq!(unknown.take(1).await.unwrap(), allowed, "of a limit that is known");
    assert!(api.take(2).await.unwrap().is_allowed(), "also by what is remembered");
    let both = || [(api.clone(), 2), (topup.limit("user").key("known"), 1)];
    assert!(topup.take_all(both()).await.unwrap().is_allowed());
    assert!(firm.take(2).await.unwrap_err().is_transient(), "one that is enforced says so");
}

#[tokio::test]
async fn by_hand_a_shadow_says_what_it_would_have_said() {
    let fixture = Fixture::set(&config("shadow")).await;
    for _ in 0..3 {
        assert_eq!(Cli::new(&["take", "api"]).redis(&fixture.redis).run().await.code, Some(0));
    }
    let told = Cli::new(&["take", "api", "--wait", "1m"]).redis(&fixture.redis).run().await;
    assert!(
        told.code == Some(0) && told.stdout.starts_with("allowed in shadow, would be denied, 0 of 3"),
        "{told:?}"
    );
    let told = Cli::new(&["take", "api", "--json"]).redis(&fixture.redis).run().await;
    let json: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(
        (&json["allowed"], &json["would_deny"], &json["mode"]),
        (&true.into(), &true.into(), &"shadow".into())
    );
}
