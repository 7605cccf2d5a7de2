//! Several takes in one decision.

use std::time::Duration;

use tokio::task::JoinSet;
use topup::{Bucket, Client, Error};

use super::stage::Stage;

const CONFIG: &str = r#"
[limit.all]
capacity = 100
rate = "1/h"

[limit.api]
capacity = 50
rate = "1/min"

[limit.user]
keyed = true
capacity = 5
rate = "1/h"

[limit.login]
keyed = true
algorithm = "lazy-token-bucket"
capacity = 3
rate = "1/h"
"#;

async fn left(bucket: &Bucket) -> u64 {
    bucket.peek().await.unwrap().remaining()
}

fn levels(topup: &Client, user: &str) -> [(Bucket, u64); 4] {
    let keyed = |limit: &str| topup.limit(limit).key(user);
    [(topup.limit("all"), 1), (topup.limit("api"), 2), (keyed("user"), 1), (keyed("login"), 1)]
}

#[tokio::test]
async fn all_is_taken_or_nothing() {
    let stage = Stage::set(CONFIG).await;
    for taken in 1..=3 {
        let joint = stage.topup.take_all(levels(&stage.topup, "a")).await.unwrap();
        assert!(joint.is_allowed() && joint.denied_by().is_none() && joint.retry_after().is_none());
        let remaining: Vec<u64> = joint.levels().iter().map(|level| level.decision().remaining()).collect();
        assert_eq!(remaining, [100 - taken, 50 - 2 * taken, 5 - taken, 3 - taken]);
    }
    let joint = stage.topup.take_all(levels(&stage.topup, "a")).await.unwrap();
    assert!(!joint.is_allowed());
    let by = joint.denied_by().unwrap();
    assert_eq!((by.limit(), by.key()), ("login", Some("a")));
    assert!(joint.retry_after().unwrap() > Duration::from_secs(3_590));
    for ((bucket, _), remaining) in levels(&stage.topup, "a").iter().zip([97, 44, 2, 0]) {
        assert_eq!(left(bucket).await, remaining, "{bucket:?}");
    }
}

#[tokio::test]
async fn who_denies_for_the_longest_is_named() {
    let stage = Stage::set(CONFIG).await;
    let [api, user] = [stage.bucket("api"), stage.bucket("user").key("a")];
    assert!(api.take(50).await.unwrap().is_allowed() && user.take(5).await.unwrap().is_allowed());
    let joint = stage.topup.take_all([(api, 1), (user, 1)]).await.unwrap();
    assert_eq!(joint.denied_by().unwrap().limit(), "user");
    let waits: Vec<_> = joint.levels().iter().map(|level| level.decision().retry_after().unwrap()).collect();
    assert_eq!(joint.retry_after(), waits.into_iter().max());
}

#[tokio::test]
async fn takes_of_one_bucket_are_one() {
    let stage = Stage::set(CONFIG).await;
    let user = || stage.bucket("user").key("a");
    let joint = stage.topup.take_all([(user(), 2), (user(), 3)]).await.unwrap();
    assert!(joint.is_allowed());
    assert_eq!((joint.levels().len(), left(&user()).await), (1, 0));
}

#[tokio::test]
async fn what_can_never_be_is_an_error_and_takes_nothing() {
    let stage = Stage::set(CONFIG).await;
    let (all, user) = (stage.bucket("all"), stage.bucket("user").key("a"));
    let told = stage.topup.take_all([(all.clone(), 1), (user.clone(), 6)]).await;
    assert!(matches!(told, Err(Error::ExceedsCapacity { capacity: 5, .. })), "{told:?}");
    let told = stage.topup.take_all([(all.clone(), 1), (stage.bucket("none"), 1)]).await;
    assert!(matches!(told, Err(Error::UnknownLimit { .. })), "{told:?}");
    let told = stage.topup.take_all([(all.clone(), 1), (stage.bucket("user"), 1)]).await;
    assert!(matches!(told, Err(Error::KeyRequired { .. })), "{told:?}");
    let told = stage.topup.take_all([(all.clone(), 1), (user, 0)]).await;
    assert!(matches!(told, Err(Error::InvalidCount { .. })), "{told:?}");
    assert_eq!(left(&all).await, 100);
    assert!(stage.topup.take_all([]).await.unwrap().is_allowed());
}

#[tokio::test]
async fn together_no_level_is_over_its_limit_and_all_spend_the_same() {
    let stage = Stage::set(CONFIG).await;
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let topup = stage.topup.clone();
        tasks.spawn(async move {
            let mut allowed = 0;
            for turn in 0..40 {
                let user = ((task + turn) % 10).to_string();
                allowed += u64::from(topup.take_all(levels(&topup, &user)).await.unwrap().is_allowed());
            }
            allowed
        });
    }
    let allowed: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(allowed, 25, "what the narrowest level allows: 50 by twos");
    assert_eq!([left(&stage.bucket("all")).await, left(&stage.bucket("api")).await], [75, 0]);
    let mut spent = [0, 0];
    for user in 0..10 {
        let user = user.to_string();
        spent[0] += 5 - left(&stage.bucket("user").key(&user)).await;
        spent[1] += 3 - left(&stage.bucket("login").key(&user)).await;
    }
    assert_eq!(spent, [25, 25]);
}
