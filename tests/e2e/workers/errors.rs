//! Typed errors, which leave nothing behind (law 7).

use topup::Error;
use topup_tests::{Redis, SOON, eventually};

use super::fixture::{Fixture, bucket_keys, patient, ready};

const CONFIG: &str = r#"
[limit]
api = { capacity = 3, rate = "1/60s" }
user = { keyed = true, capacity = 3, rate = "1/60s" }
"#;

/// More than any bucket may hold.
const TOO_MANY: u64 = (1 << 53) + 1;

#[tokio::test]
async fn a_limit_is_unknown_until_it_is_published_and_then_works() {
    let redis = Redis::start().await;
    let topup = patient(redis.url()).await;
    let early = topup.limit("api").take(1).await.unwrap_err();
    assert!(
        matches!(&early, Error::NothingPublished { limit, namespace } if limit == "api" && namespace == "topup"),
        "{early}"
    );
    assert!(early.is_transient(), "a daemon will publish it");
    assert!(early.to_string().contains("is topupd running"), "{early}");
    assert_eq!(redis.dbsize().await, 0, "no key behind");
    let _daemon = ready(CONFIG, &redis).await;
    // The same client, asked again: what was not there is not remembered.
    assert!(topup.limit("api").take(1).await.unwrap().is_allowed());
    let other = topup.limit("other").take(1).await;
    assert!(matches!(other, Err(Error::UnknownLimit { .. })), "{other:?}");
}

#[tokio::test]
async fn a_removed_limit_is_unknown_again() {
    let mut fixture = Fixture::set(CONFIG).await;
    let (api, user) = (fixture.bucket("api"), fixture.bucket("user").key("alice"));
    assert!(api.take(1).await.unwrap().is_allowed() && user.take(1).await.unwrap().is_allowed());
    fixture.reload("[limit.other]\ncapacity = 1\nrate = \"1/s\"\n").await;
    for bucket in [api, user] {
        eventually(SOON, async || matches!(bucket.take(1).await, Err(Error::UnknownLimit { .. }))).await;
    }
    eventually(SOON, async || bucket_keys(&fixture.redis).await.is_empty()).await;
}

#[tokio::test]
async fn bad_input_is_a_typed_error_that_leaves_no_key() {
    let fixture = Fixture::set(CONFIG).await;
    let (api, user) = (|| fixture.bucket("api"), || fixture.bucket("user"));
    let long = "n".repeat(65);
    for name in ["", "a b", "a:b", "{a}", "ä", &long] {
        let error = fixture.bucket(name).take(1).await.unwrap_err();
        assert!(matches!(error, Error::InvalidName(_)), "{name:?}: {error}");
    }
    for key in [String::new(), "k".repeat(257), "ü".repeat(129)] {
        let error = user().key(key.clone()).take(1).await.unwrap_err();
        assert!(matches!(error, Error::InvalidKey(_)), "{key:?}: {error}");
    }
    for count in [0, TOO_MANY, u64::MAX] {
        for error in [api().take(count).await.map(drop), api().refund(count).await.map(drop)] {
            assert!(matches!(error, Err(Error::InvalidCount { .. })), "{count}: {error:?}");
        }
    }
    let error = user().take(1).await.unwrap_err();
    assert!(matches!(&error, Error::KeyRequired { limit } if limit == "user"), "{error}");
    let error = api().key("alice").take(1).await.unwrap_err();
    assert!(matches!(&error, Error::KeyUnexpected { limit } if limit == "api"), "{error}");
    let error = api().take(4).await.unwrap_err();
    assert!(matches!(error, Error::ExceedsCapacity { count: 4, capacity: 3, .. }), "{error}");
    assert!(!error.is_transient());
    assert_eq!(fixture.bucket_keys().await, [""; 0]);
}

#[tokio::test]
async fn more_than_fits_is_an_error_also_while_a_denial_is_remembered() {
    let fixture = Fixture::set(CONFIG).await;
    let api = fixture.bucket("api");
    assert!(api.take(3).await.unwrap().is_allowed());
    assert!(!api.take(1).await.unwrap().is_allowed());
    let error = api.take(4).await.unwrap_err();
    assert!(matches!(error, Error::ExceedsCapacity { count: 4, capacity: 3, .. }), "{error}");
}

#[tokio::test]
async fn errors_of_the_caller_are_not_transient() {
    let fixture = Fixture::set(CONFIG).await;
    let wrong = [
        fixture.bucket("a b").take(1).await,
        fixture.bucket("none").take(1).await,
        fixture.bucket("user").take(1).await,
        fixture.bucket("user").key("").take(1).await,
        fixture.bucket("api").key("alice").take(1).await,
        fixture.bucket("api").take(0).await,
        fixture.bucket("api").take(4).await,
    ];
    for told in wrong {
        let error = told.unwrap_err();
        assert!(!error.is_transient(), "{error}");
    }
}
