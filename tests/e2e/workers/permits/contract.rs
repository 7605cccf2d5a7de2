//! The promises of `acquire` and of a permit, on one server.

use std::time::Duration;

use tokio::{sync::mpsc, task::spawn};
use topup::{Client, Decision, Error, OnOutage, Permit};
use topup_tests::{Cli, Redis, SOON, Stalls, eventually};

use super::super::fixture::{Fixture, briefly_patient, patient};

const CONFIG: &str = r#"
[limit]
gpu = { keyed = true, algorithm = "concurrency", limit = 2, ttl = "1min" }
one = { algorithm = "concurrency", limit = 1, ttl = "1min" }
shadow = { algorithm = "concurrency", limit = 1, mode = "shadow" }
off = { algorithm = "concurrency", limit = 1, mode = "off" }
api = { capacity = 10, rate = "1/s" }
"#;

/// Acquires a permit that is there.
async fn at_once(topup: &Client, limit: &str, key: Option<&str>, count: u64) -> Option<Permit> {
    let limit = topup.limit(limit);
    let bucket = key.map_or(limit.clone(), |key| limit.key(key));
    bucket.acquire(count, Duration::ZERO).await.unwrap().ok()
}

/// The waiters of the key in Redis.
async fn waiting(redis: &Redis, key: &str) -> u64 {
    let mut waiting = 0;
    for set in redis.ask::<Vec<String>>(&["KEYS", &format!("topup:{{*}}:q:{key}")]).await {
        waiting += redis.ask::<u64>(&["ZCARD", &set]).await;
    }
    waiting
}

#[tokio::test]
async fn permits_are_held_released_and_waited_for_in_order() {
    let mut fixture = Fixture::set(CONFIG).await;
    let (topup, other) = (fixture.topup.clone(), patient(fixture.redis.url()).await);

    // All or nothing, and each key by itself.
    let two = at_once(&topup, "gpu", Some("a"), 2).await.unwrap();
    assert_eq!((two.count(), two.decision()), (2, Decision::Allowed { remaining: 0, capacity: 2 }));
    assert!(two.is_valid() && two.valid_for() > SOON && two.valid_for() < Duration::from_secs(60));
    let denied = other.limit("gpu").key("a").acquire(1, Duration::ZERO).await.unwrap().unwrap_err();
    assert_eq!((denied.limit(), denied.key()), ("gpu", Some("a")));
    assert!(denied.retry_after().unwrap() <= Duration::from_secs(1), "{denied:?}");
    assert!(at_once(&other, "gpu", Some("b"), 1).await.is_some());
    let peeked = topup.limit("gpu").key("a").peek().await.unwrap();
    assert_eq!((peeked.remaining(), peeked.capacity()), (0, 2));
    two.release().await.unwrap();
    let one = at_once(&other, "gpu", Some("a"), 1).await.unwrap();
    assert_eq!(topup.limit("gpu").key("a").peek().await.unwrap().remaining(), 1);
    drop(one);
    eventually(SOON, async || fixture.bucket_keys().await.is_empty()).await;
    assert_eq!(fixture.redis.ask::<Vec<String>>(&["KEYS", "*:permits"]).await, [""; 0]);

    // Waiters of two processes' clients, in the order of their calls.
    let held = at_once(&topup, "one", None, 1).await.unwrap();
    let (told, mut order) = mpsc::unbounded_channel();
    for number in 0..6 {
        let (bucket, told) = ([&topup, &other][number % 2].limit("one"), told.clone());
        spawn(async move {
            let permit = bucket.acquire(1, SOON).await.unwrap().unwrap();
            told.send((number, permit)).unwrap();
        });
        eventually(SOON, async || waiting(&fixture.redis, "").await == number as u64 + 1).await;
    }
    // One who gives up leaves the queue, and one without patience does not overtake.
    let impatient = topup.limit("one").acquire(1, Duration::from_millis(60)).await.unwrap();
    assert!(impatient.is_err());
    let dropped = spawn({
        let bucket = other.limit("one");
        async move { drop(bucket.acquire(1, SOON).await) }
    });
    eventually(SOON, async || waiting(&fixture.redis, "").await == 7).await;
    dropped.abort();
    eventually(SOON, async || waiting(&fixture.redis, "").await == 6).await;
    drop(held);
    for number in 0..6 {
        let (first, permit) = order.recv().await.unwrap();
        assert_eq!(first, number);
        assert!(at_once(&topup, "one", None, 1).await.is_none());
        drop(permit);
    }
    let status = Cli::new(&["status"]).redis(&fixture.redis).run().await;
    assert!(status.stdout.contains("concurrency"), "{status:?}");

    // A change of the limit, under way.
    let held = at_once(&topup, "one", None, 1).await.unwrap();
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let bucket = other.limit("one");
            spawn(async move { bucket.acquire(1, SOON).await.unwrap().unwrap() })
        })
        .collect();
    eventually(SOON, async || waiting(&fixture.redis, "").await == 2).await;
    let text = Cli::new(&["status"]).redis(&fixture.redis).run().await.stdout;
    assert!(text.contains("one: 1 of 1 permits held; 2 waiters"), "{text}");
    fixture.reload(&CONFIG.replacen("limit = 1, ttl", "limit = 3, ttl", 1)).await;
    let mut three = vec![held];
    for waiter in waiters {
        three.push(waiter.await.unwrap());
    }
    fixture.reload(CONFIG).await;
    eventually(SOON, async || topup.limit("one").peek().await.unwrap().capacity() == 1).await;
    assert!(three.iter().all(Permit::is_valid), "holders stay");
    three.truncate(1);
    assert!(at_once(&other, "one", None, 1).await.is_none());
    drop(three);
    let last = other.limit("one").acquire(1, SOON).await.unwrap().unwrap();
    drop(last);
    // An orderly end releases what was dropped.
    other.put_back().await;
    assert!(at_once(&topup, "one", None, 1).await.is_some());
}

#[tokio::test]
async fn tokens_and_permits_are_not_mixed_up_and_modes_and_pauses_hold() {
    let fixture = Fixture::set(CONFIG).await;
    let (topup, one, api) = (&fixture.topup, fixture.bucket("one"), fixture.bucket("api"));
    let is_refused = |error: Error| {
        assert!(matches!(&error, Error::NotTokens { limit } if limit == "one"), "{error}");
        assert!(error.to_string().contains("call acquire") && !error.is_transient(), "{error}");
    };
    is_refused(one.take(1).await.unwrap_err());
    is_refused(one.wait(1, SOON).await.unwrap_err());
    is_refused(one.refund(1).await.unwrap_err());
    is_refused(one.reset().await.unwrap_err());
    is_refused(topup.take_all([(api.clone(), 1), (one.clone(), 1)]).await.unwrap_err());
    assert!(one.try_take().is_none());
    assert!(matches!(one.reserve(1, SOON).await, Err(Error::NotTokens { .. } | Error::NoQueue { .. })));
    assert_eq!(api.peek().await.unwrap().remaining(), 10, "take_all has taken nothing");
    assert!(matches!(api.acquire(1, SOON).await, Err(Error::NoPermits { algorithm: "token-bucket", .. })));
    assert!(matches!(one.acquire(0, SOON).await, Err(Error::InvalidCount { count: 0 })));
    assert!(matches!(one.acquire(2, SOON).await, Err(Error::ExceedsCapacity { count: 2, capacity: 1, .. })));
    assert!(matches!(topup.limit("none").acquire(1, SOON).await, Err(Error::UnknownLimit { .. })));
    assert!(matches!(topup.limit("gpu").acquire(1, SOON).await, Err(Error::KeyRequired { .. })));
    for args in [&["take", "one"][..], &["reset", "one"]] {
        let refused = Cli::new(args).redis(&fixture.redis).run().await;
        assert!(refused.stderr.contains("workers acquire and release them"), "{refused:?}");
    }
    let peeked = Cli::new(&["peek", "one"]).redis(&fixture.redis).run().await;
    assert!(peeked.stdout.contains("1 of 1 left"), "{peeked:?}");

    // In shadow, a denial stops nobody; off, Redis is not asked.
    let held = at_once(topup, "shadow", None, 1).await.unwrap();
    let beyond = topup.limit("shadow").acquire(1, SOON).await.unwrap().unwrap();
    assert!(matches!(beyond.decision(), Decision::Shadowed { capacity: 1, .. }) && beyond.is_valid());
    drop(beyond);
    assert_eq!(topup.limit("shadow").peek().await.unwrap().remaining(), 0);
    drop(held);
    let off: Vec<_> = [at_once(topup, "off", None, 1).await, at_once(topup, "off", None, 1).await].into();
    assert!(off.iter().all(Option::is_some));
    assert_eq!(off[0].as_ref().unwrap().valid_for(), Duration::MAX);

    // A pause holds everyone up but holders.
    let held = at_once(topup, "one", None, 1).await.unwrap();
    one.pause(Duration::from_secs(60)).await.unwrap();
    held.release().await.unwrap();
    let denied = one.acquire(1, Duration::from_millis(10)).await.unwrap().unwrap_err();
    assert!(denied.retry_after().unwrap() > SOON, "{denied:?}");
    let patient = spawn({
        let one = one.clone();
        async move { one.acquire(1, Duration::from_secs(120)).await.unwrap().unwrap() }
    });
    one.resume().await.unwrap();
    drop(patient.await.unwrap());
    let counts = topup.counts("one");
    assert_eq!([topup::Count::Allowed, topup::Count::Denied].map(|count| counts.get(count)), [2, 1]);
}

const SHORT: &str = r#"
[limit]
error = { algorithm = "concurrency", limit = 4, ttl = "500ms" }
allow = { algorithm = "concurrency", limit = 4, on_outage = "allow" }
deny = { algorithm = "concurrency", limit = 4, on_outage = "deny" }
local = { algorithm = "concurrency", limit = 4, on_outage = "local" }
"#;

#[tokio::test]
async fn a_holder_learns_that_redis_was_away_for_too_long_and_policies_decide_meanwhile() {
    let fixture = Fixture::set(SHORT).await;
    let topup = briefly_patient(fixture.redis.url()).await;
    for limit in ["allow", "deny", "local"] {
        assert!(at_once(&topup, limit, None, 1).await.is_some());
    }
    // The worker has to hear of itself first.
    eventually(SOON, async || fixture.redis.ask::<u64>(&["ZCARD", "topup:{topup}:workers"]).await == 1).await;
    let permit = topup.limit("error").acquire(4, SOON).await.unwrap().unwrap();
    fixture.redis.server.pause().unwrap();
    permit.lost().await;
    assert!(!permit.is_valid() && permit.valid_for().is_zero());
    let error = topup.limit("error").acquire(1, SOON).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let allowed = at_once(&topup, "allow", None, 3).await.unwrap();
    assert!(matches!(allowed.decision(), Decision::Degraded { on_outage: OnOutage::Allow, .. }));
    let denied = topup.limit("deny").acquire(1, Duration::ZERO).await.unwrap().unwrap_err();
    assert!(denied.outage_reason().is_some());
    let local = at_once(&topup, "local", None, 3).await.unwrap();
    assert!(
        matches!(local.decision(), Decision::Degraded { on_outage: OnOutage::Local, .. }) && local.is_valid()
    );
    assert!(at_once(&topup, "local", None, 2).await.is_none());
    drop(local);
    let again = at_once(&topup, "local", None, 4).await;
    assert!(again.is_some_and(|permit| permit.decision().is_degraded()), "its places came back");
    fixture.redis.server.resume().unwrap();
    // The lost permit is over in Redis, too, and its drop takes no place of another holder.
    let stalls = Stalls::watch();
    let next = eventually_acquired(&topup, "error", 4).await;
    drop(permit);
    topup.put_back().await;
    // A holder that cannot run for a part of its 500 ms loses its permit.
    if stalls.below(Duration::from_millis(50), "a permit after a lost one") {
        assert!(at_once(&topup, "error", None, 1).await.is_none());
        assert!(next.is_valid());
    }
}

async fn eventually_acquired(topup: &Client, limit: &str, count: u64) -> Permit {
    let mut found = None;
    eventually(SOON, async || {
        found = topup.limit(limit).acquire(count, SOON).await.ok().and_then(Result::ok);
        found.is_some()
    })
    .await;
    found.unwrap()
}
