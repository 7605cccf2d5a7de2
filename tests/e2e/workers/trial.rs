//! Candidates beside a limit, and their counts.

use serde_json::Value;
use topup::{Bucket, Client, Count};
use topup_tests::{Cli, Redis, SOON, eventually};

use super::fixture::{Fixture, patient};

/// Ten an hour, of which a candidate would allow three.
const CANDIDATE: &str = "[limit.api]\ncapacity = 10\nrate = \"1/h\"\ncandidate = { capacity = 3 }\n\
                         [limit.user]\nkeyed = true\nalgorithm = \"fixed-window\"\nlimit = 10\nwindow = \"1h\"\naligned = true\n\
                         candidate = { limit = 2 }\n[limit.plain]\ncapacity = 10\nrate = \"1/h\"\n";
const PLAIN: &str = "[limit.api]\ncapacity = 10\nrate = \"1/h\"\n[limit.user]\nkeyed = true\nalgorithm = \"fixed-window\"\n\
                     limit = 10\nwindow = \"1h\"\naligned = true\n[limit.plain]\ncapacity = 10\nrate = \"1/h\"\n";

async fn take(bucket: &Bucket, times: u32) -> u32 {
    let mut allowed = 0;
    for _ in 0..times {
        allowed += u32::from(bucket.take(1).await.unwrap().is_allowed());
    }
    allowed
}

/// Waits until `topup` has counted so much.
async fn counted(topup: &Client, limit: &str, counts: &[(Count, u64)]) {
    eventually(SOON, async || {
        let now = topup.counts(limit);
        let wrong = counts.iter().find(|(count, wanted)| now.get(*count) != *wanted);
        wrong.map_or(Ok(()), |wrong| Err(format!("{wrong:?} of {now:?}")))
    })
    .await;
}

async fn row(redis: &Redis, limit: &str) -> Value {
    let ended = Cli::new(&["status", "--json"]).redis(redis).run().await;
    let status: Result<Value, _> = serde_json::from_str(&ended.stdout).map_err(|error| (error, ended));
    let status = status.unwrap();
    let rows = status["limits"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == limit).unwrap().clone()
}

async fn keys(redis: &Redis, pattern: &str) -> Vec<String> {
    redis.ask(&["KEYS", pattern]).await
}

#[tokio::test]
async fn a_candidate_is_asked_about_every_take_and_changes_none() {
    let mut fixture = Fixture::set(CANDIDATE).await;
    assert_eq!(take(&fixture.bucket("api"), 12).await, 10);
    let live = [(Count::Allowed, 10), (Count::Denied, 2)];
    let beside = [(Count::CandidateAllowed, 3), (Count::CandidateDenied, 9), (Count::CandidateUnasked, 0)];
    counted(&fixture.topup, "api", &live).await;
    counted(&fixture.topup, "api", &beside).await;
    assert_eq!(take(&fixture.bucket("user").key("alice"), 5).await, 5);
    let both = [(fixture.bucket("user").key("bob"), 1), (fixture.bucket("plain"), 1)];
    assert!(fixture.topup.take_all(both).await.unwrap().is_allowed());
    counted(&fixture.topup, "user", &[(Count::Allowed, 6)]).await;
    counted(&fixture.topup, "user", &[(Count::CandidateAllowed, 3), (Count::CandidateDenied, 3)]).await;
    counted(&fixture.topup, "plain", &[(Count::Allowed, 1), (Count::CandidateAllowed, 0)]).await;

    eventually(SOON, async || {
        let row = row(&fixture.redis, "api").await;
        let count = |count: Count| row["counts"][count.as_str()].as_u64();
        live.iter().chain(&beside).all(|(which, wanted)| count(*which) == Some(*wanted))
            && row["candidate"]["capacity"] == 3
    })
    .await;
    let text = Cli::new(&["status"]).redis(&fixture.redis).run().await.stdout;
    assert!(text.contains("api: enforce: 10 allowed, 2 denied, 0 would be denied, 0 degraded"), "{text}");
    assert!(text.contains("candidate, capacity 3, 1/h: 3 would be allowed, 9 would be denied"), "{text}");
    assert!(!text.contains('~'), "{text}");
    let names = ["api~candidate", "api~lazy"];
    for name in names {
        let told = fixture.topup.limit(name).take(1).await;
        assert!(matches!(told, Err(topup::Error::InvalidName(_))), "{told:?}");
    }

    // Gone from the config, nothing of it is left, and no worker brings it back.
    fixture.reload(PLAIN).await;
    eventually(SOON, async || {
        let left = keys(&fixture.redis, "*~*").await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    // The daemon clears the counts last: what is counted before that is gone.
    eventually(SOON, async || {
        take(&fixture.bucket("api"), 1).await;
        row(&fixture.redis, "api").await["counts"]["denied"].as_u64() > Some(0)
    })
    .await;
    assert!(row(&fixture.redis, "api").await["candidate"].is_null());
}

#[tokio::test]
async fn another_candidate_takes_over_and_is_counted_from_the_beginning() {
    let config = |capacity: u32| {
        format!(
            "[limit.api]\ncapacity = 10\nrate = \"1/h\"\ncandidate = {{ capacity = {capacity}, rate = \"1000/s\" }}\n"
        )
    };
    let mut fixture = Fixture::set(&config(1)).await;
    take(&fixture.bucket("api"), 4).await;
    eventually(SOON, async || row(&fixture.redis, "api").await["counts"]["allowed"] == 4).await;
    fixture.reload(&config(5)).await;
    eventually(SOON, async || row(&fixture.redis, "api").await["counts"]["allowed"] == 0).await;
    let row = row(&fixture.redis, "api").await;
    assert_eq!((&row["candidate"]["capacity"], &row["candidate"]["rate"]), (&5.into(), &"1000/s".into()));
    assert_eq!(row["capacity"], 10);
    assert_eq!(fixture.bucket("api").peek().await.unwrap().remaining(), 6, "its own tokens stay");
}

#[tokio::test]
async fn denials_of_a_shadow_are_counted() {
    let fixture = Fixture::set("[limit.api]\ncapacity = 3\nrate = \"1/h\"\nmode = \"shadow\"\n").await;
    assert_eq!(take(&fixture.bucket("api"), 8).await, 8);
    counted(&fixture.topup, "api", &[(Count::Allowed, 3), (Count::WouldDeny, 5), (Count::Denied, 0)]).await;
    let other = patient(fixture.redis.url()).await;
    assert_eq!(take(&other.limit("api"), 2).await, 2);
    // A client reports its counts also when it is dropped.
    drop(other);
    eventually(SOON, async || row(&fixture.redis, "api").await["counts"]["would_deny"] == 7).await;
}

#[tokio::test]
async fn a_limit_that_is_removed_takes_its_counts_along() {
    let plain = "[limit.plain]\ncapacity = 1\nrate = \"1/h\"\n";
    let mut fixture =
        Fixture::set(&format!("{plain}[limit.api]\ncapacity = 3\nrate = \"1/h\"\nmode = \"off\"\n")).await;
    let api = fixture.bucket("api");
    take(&api, 3).await;
    eventually(SOON, async || !keys(&fixture.redis, "*:counts").await.is_empty()).await;
    fixture.reload(plain).await;
    // A worker that has not heard of it yet goes on, and what it tells is not written down.
    eventually(SOON, async || api.take(1).await.is_err()).await;
    assert_eq!(keys(&fixture.redis, "topup:{api*").await, [""; 0]);
}

#[tokio::test]
async fn a_bucket_decides_as_the_lazy_one_beside_it() {
    let config = "[limit.api]\ncapacity = 5\nrate = \"1/h\"\ncompare_percent = 1\n\
                  [limit.user]\nkeyed = true\ncapacity = 2\nrate = \"1/h\"\ncompare_percent = 50\n";
    let fixture = Fixture::set(config).await;
    assert_eq!(take(&fixture.bucket("api"), 8).await, 5);
    let same = [(Count::BothAllowed, 5), (Count::BothDenied, 3), (Count::OnlyOurs, 0), (Count::OnlyLazy, 0)];
    counted(&fixture.topup, "api", &same).await;
    for key in 0..100 {
        assert_eq!(take(&fixture.bucket("user").key(format!("user {key}")), 3).await, 2);
    }
    counted(&fixture.topup, "user", &[(Count::Allowed, 200), (Count::Denied, 100)]).await;
    let lazy = keys(&fixture.redis, "topup:{user~lazy:*}:l:*").await.len() as u64;
    assert!((30..=70).contains(&lazy), "{lazy} of 100 keys are compared");
    counted(&fixture.topup, "user", &[(Count::BothAllowed, 2 * lazy), (Count::BothDenied, lazy)]).await;
    counted(&fixture.topup, "user", &[(Count::OnlyOurs, 0), (Count::OnlyLazy, 0), (Count::Uncompared, 0)])
        .await;
    eventually(SOON, async || row(&fixture.redis, "api").await["counts"]["both_allowed"] == 5).await;
    let text = Cli::new(&["status"]).redis(&fixture.redis).run().await.stdout;
    assert!(
        text.contains("lazy-token-bucket beside it: 5 both allow, 0 only this, 0 only lazy, 3 both deny"),
        "{text}"
    );
}

#[tokio::test]
async fn a_difference_in_tokens_is_told() {
    let fixture = Fixture::set("[limit.api]\ncapacity = 9\nrate = \"1/h\"\ncompare_percent = 100\n").await;
    let api = fixture.bucket("api");
    assert_eq!(take(&api, 1).await, 1);
    counted(&fixture.topup, "api", &[(Count::BothAllowed, 1), (Count::Difference, 0)]).await;
    // A reset by hand does not reach the lazy bucket.
    assert_eq!(take(&api, 3).await, 3);
    counted(&fixture.topup, "api", &[(Count::BothAllowed, 4)]).await;
    api.reset().await.unwrap();
    assert_eq!(take(&api, 1).await, 1);
    counted(&fixture.topup, "api", &[(Count::BothAllowed, 5), (Count::LargestDifference, 4)]).await;
}
