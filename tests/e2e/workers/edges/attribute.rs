//! `#[topup::limited]`: functions that begin when limits allow it.

use std::time::Duration;

use topup::{Client, Denied, Error, limited};
use topup_tests::{Redis, clock};

use super::{
    super::fixture::{Fixture, briefly_patient},
    CONFIG,
};

/// Why a function has not begun.
#[derive(Debug)]
enum NotBegun {
    Denied(Denied),
    Undecided(Error),
}

impl From<Denied> for NotBegun {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<Error> for NotBegun {
    fn from(error: Error) -> Self {
        Self::Undecided(error)
    }
}

#[limited(limit = "user", key = name, client = topup, message = "not so fast")]
async fn greet(topup: &Client, name: &str) -> Result<String, NotBegun> {
    Ok(format!("hello {name}"))
}

#[limited(limit = "api", count = 2, client = topup)]
#[limited(limit = "one", message = "only one")]
#[limited(limit = "user", key = id)]
async fn all_three(topup: &Client, id: u64) -> Result<u64, NotBegun> {
    Ok(id)
}

#[limited(limit = "soon", wait = "5s", client = topup)]
async fn patient(topup: &Client) -> Result<(), NotBegun> {
    Ok(())
}

#[limited(limit = "soon", wait = "5s", client = topup)]
#[limited(limit = "api")]
async fn patient_for_both(topup: &Client) -> Result<(), NotBegun> {
    Ok(())
}

#[limited(limit = "api")]
async fn by_default() -> Result<(), NotBegun> {
    Ok(())
}

#[limited(limit = "api", client = topup)]
async fn strict(topup: &Client) -> Result<(), NotBegun> {
    Ok(())
}

#[limited(limit = "api", client = topup, on_outage = allow)]
async fn lenient(topup: &Client) -> Result<(), Denied> {
    Ok(())
}

#[limited(limit = "api", client = topup, on_outage = deny)]
async fn careful(topup: &Client) -> Result<(), Denied> {
    Ok(())
}

#[limited(limit = "user", key = name, count = count, client = topup, on_outage = allow)]
async fn greedy(topup: &Client, name: &str, count: u64) -> Result<(), Denied> {
    Ok(())
}

fn denied<T: std::fmt::Debug>(told: Result<T, NotBegun>) -> Denied {
    match told {
        Err(NotBegun::Denied(denied)) => denied,
        other => panic!("not denied: {other:?}"),
    }
}

#[tokio::test]
async fn a_function_begins_only_when_its_limit_allows() {
    let fixture = Fixture::set(CONFIG).await;
    for _ in 0..2 {
        assert_eq!(greet(&fixture.topup, "alice").await.unwrap(), "hello alice");
    }
    let denied = denied(greet(&fixture.topup, "alice").await);
    assert_eq!((denied.limit(), denied.key()), ("user", Some("alice")));
    assert_eq!((denied.message(), denied.to_string().as_str()), ("not so fast", "not so fast"));
    let wait = denied.retry_after().unwrap();
    assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60), "{wait:?}");
    assert!(denied.cause().is_none());
    assert_eq!(greet(&fixture.topup, "bob").await.unwrap(), "hello bob");
}

#[tokio::test]
async fn stacked_attributes_spend_of_all_limits_or_of_none() {
    let fixture = Fixture::set(CONFIG).await;
    let left = async || {
        let (api, user) = (fixture.bucket("api"), fixture.bucket("user").key("7"));
        (api.peek().await.unwrap().remaining(), user.peek().await.unwrap().remaining())
    };
    assert_eq!(all_three(&fixture.topup, 7).await.unwrap(), 7);
    assert_eq!(left().await, (8, 1));
    let denied = denied(all_three(&fixture.topup, 7).await);
    assert_eq!((denied.limit(), denied.key(), denied.message()), ("one", None, "only one"));
    assert_eq!(left().await, (8, 1), "nothing is spent on a denial");
}

#[tokio::test]
async fn a_function_waits_for_its_turn() {
    let fixture = Fixture::set(CONFIG).await;
    let begun = clock::now();
    patient(&fixture.topup).await.unwrap();
    patient(&fixture.topup).await.unwrap();
    patient_for_both(&fixture.topup).await.unwrap();
    assert!(clock::now() - begun >= 380_000, "two more tokens, of five a second");
}

#[tokio::test]
async fn a_default_client_is_set_once_and_asked_where_none_is_named() {
    assert!(matches!(by_default().await, Err(NotBegun::Undecided(Error::NoDefault))));
    let fixture = Fixture::set(CONFIG).await;
    topup::set_default(fixture.topup.clone()).unwrap();
    by_default().await.unwrap();
    assert_eq!(fixture.bucket("api").peek().await.unwrap().remaining(), 9);
    assert!(matches!(topup::set_default(fixture.topup.clone()), Err(Error::DefaultIsSet)));
}

#[tokio::test]
async fn an_outage_comes_to_what_the_attribute_says() {
    let mut fixture = Fixture::on(Redis::tcp().await, CONFIG).await;
    let topup = briefly_patient(fixture.redis.url()).await;
    strict(&topup).await.unwrap();
    fixture.redis.server.kill().unwrap();
    assert!(matches!(strict(&topup).await, Err(NotBegun::Undecided(error)) if error.is_transient()));
    assert_eq!(topup.undecided(), 0, "an error is nothing that was decided without Redis");
    lenient(&topup).await.unwrap();
    let denied = careful(&topup).await.unwrap_err();
    assert!(denied.outage_reason().is_some() && denied.retry_after().is_some(), "{denied:?}");
    assert_eq!((denied.limit(), topup.undecided()), ("api", 2));
}

#[tokio::test]
async fn an_impossible_take_is_denied_whatever_the_attribute_says() {
    let fixture = Fixture::set(CONFIG).await;
    for (name, count) in [("alice", 3), ("alice", 0), ("", 1)] {
        let denied = greedy(&fixture.topup, name, count).await.unwrap_err();
        assert!(denied.cause().is_some_and(|cause| !cause.is_transient()), "{name:?}, {count}: {denied:?}");
    }
    assert_eq!(fixture.topup.undecided(), 0, "that is the caller's doing");
}
