//! Pauses: one worker asks, and all stop.

use std::{future::poll_fn, task::Poll, time::Duration};

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use topup::{
    Admission, Client, Decision, Error, OnOutage, Take,
    http::{PerHost, WaitLayer},
};
use topup_tests::{Attempt, Cli, Redis, SOON, clock, eventually, stalls::Stalls};
use tower::{Layer, ServiceExt, service_fn};

use super::fixture::{Fixture, patient};

const CONFIG: &str = r#"
[limit]
api = { capacity = 1000, rate = "1000/s" }
user = { keyed = true, capacity = 10, rate = "1/60s", shards = 4 }
slow = { keyed = true, capacity = 10, rate = "10/s" }
lease = { capacity = 10000, rate = "10000/s", lease = { max = 1000, ttl = "20s" } }
leaky = { algorithm = "leaky-bucket", capacity = 10, rate = "1/60s" }
lazy = { algorithm = "lazy-token-bucket", capacity = 10, rate = "1/60s" }
gcra = { algorithm = "gcra", capacity = 10, rate = "1/60s" }
window = { algorithm = "sliding-window", limit = 10, window = "1min" }
shadow = { capacity = 10, rate = "1/60s", mode = "shadow" }
brief = { capacity = 10, rate = "1/60s" }
"#;

/// A pause takes effect within this time in µs: two polls, and their replies on a busy machine.
const EFFECTIVE_WITHIN: u64 = 500_000;
const MINUTE: Duration = Duration::from_secs(60);

fn millis(of: u64) -> Duration {
    Duration::from_millis(of)
}

/// Waits until `topup` denies takes of the bucket because of a pause.
async fn until_paused(topup: &Client, limit: &str, key: Option<&str>) {
    eventually(SOON, async || {
        let bucket = topup.limit(limit);
        let bucket = key.map_or(bucket.clone(), |key| bucket.key(key));
        let told = bucket.peek().await;
        told.is_ok_and(|decision| decision.retry_after().is_some_and(|wait| wait > millis(200)))
    })
    .await;
}

#[tokio::test]
async fn one_process_pauses_all_for_as_long_as_told_and_no_longer() {
    let (fixture, stalls) = (Fixture::set(CONFIG).await, Stalls::watch());
    let pause = 1_500_000;
    let workers = fixture.workers(4, "api", millis(4)).await;
    workers.log.allowed(200).await;
    let before = clock::now();
    let left = fixture.bucket("api").pause(Duration::from_micros(pause)).await.unwrap();
    let after = clock::now();
    assert_eq!(left, Duration::from_micros(pause));
    // While it is on, takes cost Redis nothing.
    eventually(SOON, async || clock::now() > after + EFFECTIVE_WITHIN).await;
    let (decrements, scripts) =
        (fixture.redis.command_calls("decr").await, fixture.redis.command_calls("decrby").await);
    eventually(SOON, async || clock::now() > before + pause - 200_000).await;
    let more = fixture.redis.command_calls("decr").await + fixture.redis.command_calls("decrby").await;
    assert!(clock::now() > before + pause || more == decrements + scripts, "takes went to Redis");
    eventually(SOON, async || clock::now() > after + pause + EFFECTIVE_WITHIN).await;
    let attempts = workers.stop().await;
    assert!(attempts.iter().all(|attempt| attempt.error().is_none()));

    let allowed = || attempts.iter().filter(|attempt| attempt.is_allowed());
    let first_denied = |from: u64| {
        attempts
            .iter()
            .filter(|attempt| attempt.sent > from && !attempt.is_allowed())
            .map(|attempt| attempt.sent)
            .min()
    };
    let last_before =
        allowed().filter(|attempt| attempt.sent < before + pause - 100_000).map(|a| a.sent).max().unwrap();
    let first_after =
        allowed().filter(|attempt| attempt.received > before + pause).map(|a| a.received).min().unwrap();
    println!(
        "4 processes stop {} ms after the pause, and go on {} ms after its end",
        last_before.saturating_sub(after) / 1_000,
        first_after.saturating_sub(before + pause) / 1_000,
    );
    assert!(first_denied(before).is_some());
    // Workers that have stopped go on at the end, and not before.
    let stopped = after + EFFECTIVE_WITHIN;
    let early: Vec<&Attempt> =
        allowed().filter(|attempt| attempt.sent > stopped && attempt.received < before + pause).collect();
    if stalls.below(millis(150), "how soon a pause takes effect") {
        assert!(early.is_empty(), "{} takes: {early:?}", early.len());
        assert!(first_after < after + pause + EFFECTIVE_WITHIN, "longer than told");
    }
}

#[tokio::test]
async fn every_algorithm_and_every_way_of_a_take_is_held() {
    let mut fixture = Fixture::set(CONFIG).await;
    let other = patient(fixture.redis.url()).await;
    let keyed = |limit: &str| ["user", "slow"].contains(&limit);
    let bucket = |topup: &Client, limit: &str| match keyed(limit) {
        true => topup.limit(limit).key("alice"),
        false => topup.limit(limit),
    };
    // Tokens in hand are kept, and spent afterwards.
    for _ in 0..200 {
        assert!(other.limit("lease").take(1).await.unwrap().is_allowed());
    }
    let limits = ["api", "user", "lease", "leaky", "lazy", "gcra", "window"];
    for limit in limits {
        assert!(bucket(&other, limit).take(1).await.unwrap().is_allowed());
        let left = bucket(&fixture.topup, limit).pause(MINUTE).await.unwrap();
        assert_eq!(left, MINUTE);
    }
    for limit in limits {
        until_paused(&other, limit, keyed(limit).then_some("alice")).await;
    }
    let in_hand = other.prefetched_tokens();
    let late_worker = patient(fixture.redis.url()).await;
    fixture.redis.reset_stats().await;
    for topup in [&fixture.topup, &other, &late_worker] {
        for limit in limits {
            let bucket = bucket(topup, limit);
            for _ in 0..20 {
                let Decision::Denied { retry_after, .. } = bucket.take(1).await.unwrap() else {
                    panic!("{limit}: not denied")
                };
                assert!(retry_after > millis(50_000) && retry_after <= MINUTE, "{limit}: {retry_after:?}");
            }
            assert!(bucket.try_take().is_some_and(|decision| !decision.is_allowed()), "{limit}");
            let begun = clock::now();
            assert!(!bucket.wait(1, millis(10_000)).await.unwrap().is_allowed());
            assert!(clock::now() - begun < 5_000_000, "{limit}: a wait that is of no use ends at once");
            let all = topup.take_all([(bucket.clone(), 1), (topup.limit("brief"), 1)]).await.unwrap();
            assert_eq!(all.denied_by().map(topup::LimitDecision::limit), Some(limit));
            let take = if keyed(limit) { Take::of(limit).key("alice") } else { Take::of(limit) };
            let denied = Admission::of(topup).take(take).decide().await.unwrap().unwrap_err();
            assert!(denied.retry_after().is_some_and(|wait| wait > millis(50_000)), "{denied:?}");
        }
        assert!(!topup.limit("leaky").reserve(1, MINUTE).await.unwrap().decision().is_allowed());
        assert!(matches!(topup.limit("gcra").reserve(1, MINUTE).await, Err(Error::NoQueue { .. })));
    }
    assert_eq!(fixture.redis.command_calls("decr").await + fixture.redis.command_calls("decrby").await, 0);
    assert_eq!(
        other.limit("brief").peek().await.unwrap().remaining(),
        10,
        "no part of a denied decision is taken"
    );
    assert_eq!(bucket(&other, "user").peek().await.unwrap().remaining(), 9, "a peek tells tokens");
    assert_eq!(bucket(&other, "user").refund(1).await.unwrap(), 10);
    assert_eq!(other.prefetched_tokens(), in_hand);

    assert!(other.limit("user").key("bob").take(1).await.unwrap().is_allowed(), "another key");

    // A limit without an enforced decision is not held up.
    fixture.bucket("shadow").pause(MINUTE).await.unwrap();
    assert!(matches!(fixture.bucket("shadow").take(1).await.unwrap(), Decision::Allowed { .. }));
    assert!(fixture.bucket("shadow").wait(1, MINUTE).await.unwrap().is_allowed());

    // The end by hand.
    for limit in limits {
        bucket(&fixture.topup, limit).resume().await.unwrap();
        assert!(bucket(&fixture.topup, limit).take(1).await.unwrap().is_allowed());
        eventually(SOON, async || bucket(&other, limit).take(1).await.unwrap().is_allowed()).await;
    }
    let status = Cli::new(&["status", "--json"]).redis(&fixture.redis).run().await;
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["pauses"].as_array().map(Vec::len), Some(1), "{}", status["pauses"]);
    assert_eq!(status["pauses"][0]["limit"], "shadow");

    // A removed limit leaves no pause, and one that does not exist gets none.
    fixture.bucket("brief").pause(MINUTE).await.unwrap();
    let without = CONFIG.split("shadow = ").next().unwrap();
    fixture.reload(without).await;
    let left = async || fixture.redis.ask::<u64>(&["EXISTS", "topup:{topup}:pauses"]).await;
    eventually(SOON, async || left().await == 0).await;
    let unknown = patient(fixture.redis.url()).await.limit("brief").pause(MINUTE).await;
    assert!(matches!(unknown, Err(Error::UnknownLimit { .. })), "{unknown:?}");
    let wrong = fixture.bucket("api").key("alice").pause(MINUTE).await;
    assert!(matches!(wrong, Err(Error::KeyUnexpected { .. })), "{wrong:?}");
    assert_eq!(left().await, 0);
}

#[tokio::test]
async fn waiters_wait_for_the_end_in_their_order_and_go_on_when_it_comes_early() {
    let fixture = Fixture::set(CONFIG).await;
    let (one, other) =
        (fixture.bucket("slow").key("a"), patient(fixture.redis.url()).await.limit("slow").key("a"));
    // Some wait in the queue when the pause begins, others come later.
    while one.take(1).await.unwrap().is_allowed() {}
    let (order, mut told) = tokio::sync::mpsc::unbounded_channel();
    let start = async |number: u32, bucket: &topup::Bucket| {
        let (bucket, order) = (bucket.clone(), order.clone());
        let mut waits = Box::pin(async move {
            let decision = bucket.wait(1, 2 * MINUTE).await.unwrap();
            order.send((number, decision.is_allowed(), clock::now())).unwrap();
        });
        // The first poll takes its turn.
        let first = poll_fn(|context| Poll::Ready(waits.as_mut().poll(context))).await;
        assert!(first.is_pending());
        tokio::spawn(waits);
    };
    let begun = clock::now();
    other.pause(millis(1_000)).await.unwrap();
    until_paused(&fixture.topup, "slow", Some("a")).await;
    for number in 0..3 {
        start(number, &one).await;
    }
    // Longer, and later ended early.
    other.pause(MINUTE).await.unwrap();
    start(3, &one).await;
    eventually(SOON, async || clock::now() > begun + 1_200_000).await;
    assert!(told.try_recv().is_err(), "they wait for the later end");
    let resumed = clock::now();
    other.resume().await.unwrap();
    let mut numbers = Vec::new();
    for _ in 0..4 {
        let (number, allowed, at) = tokio::time::timeout(SOON, told.recv()).await.unwrap().unwrap();
        assert!(allowed && at > resumed);
        numbers.push(number);
    }
    assert_eq!(numbers, [0, 1, 2, 3]);

    // A waiter that was there before the pause, and one whose patience is too short.
    let drained = fixture.bucket("slow").key("b");
    while drained.take(1).await.unwrap().is_allowed() {}
    let waiter = tokio::spawn({
        let drained = drained.clone();
        async move { (drained.wait(5, MINUTE).await.unwrap(), clock::now()) }
    });
    let short = tokio::spawn({
        let drained = drained.clone();
        async move { drained.wait(6, millis(1_500)).await.unwrap() }
    });
    tokio::task::yield_now().await;
    let begun = clock::now();
    drained.pause(millis(2_000)).await.unwrap();
    assert!(!tokio::time::timeout(SOON, short).await.unwrap().unwrap().is_allowed());
    let (decision, at) = tokio::time::timeout(SOON, waiter).await.unwrap().unwrap();
    assert!(decision.is_allowed() && at >= begun + 2_000_000, "{} µs", at - begun);
}

#[tokio::test]
async fn pauses_and_resumes_at_once_end_in_one_state_for_all() {
    let fixture = Fixture::set(CONFIG).await;
    let mut workers = vec![fixture.topup.clone()];
    for _ in 0..3 {
        workers.push(patient(fixture.redis.url()).await);
    }
    for round in 0..5 {
        let mut calls = tokio::task::JoinSet::new();
        for (i, topup) in workers.iter().enumerate() {
            for turn in 0..10 {
                let bucket = topup.limit("api");
                calls.spawn(async move {
                    match (i + turn + round) % 2 {
                        0 => bucket.pause(MINUTE).await.map(drop),
                        _ => bucket.resume().await,
                    }
                });
            }
        }
        calls.join_all().await.into_iter().for_each(Result::unwrap);
        let paused = fixture.redis.ask::<u64>(&["EXISTS", "topup:{topup}:pauses"]).await == 1;
        for topup in &workers {
            eventually(SOON, async || topup.limit("api").take(1).await.unwrap().is_allowed() != paused).await;
        }
        // Once more, after a poll or two: no late answer brings the other state back.
        let at = clock::now() + EFFECTIVE_WITHIN;
        eventually(SOON, async || clock::now() > at).await;
        for topup in &workers {
            assert_eq!(topup.limit("api").take(1).await.unwrap().is_allowed(), !paused, "round {round}");
        }
    }
}

#[tokio::test]
async fn a_redis_that_is_flushed_or_away_makes_no_pause_longer_than_told() {
    let mut fixture = Fixture::on(Redis::tcp().await, CONFIG).await;
    let lenient = || Client::builder().deadline(millis(250)).on_outage(OnOutage::Allow);
    let topup = lenient().connect(fixture.redis.url()).await.unwrap();
    fixture.bucket("api").pause(MINUTE).await.unwrap();
    fixture.bucket("slow").key("x").pause(MINUTE).await.unwrap();
    until_paused(&topup, "api", None).await;
    fixture.redis.ask::<()>(&["FLUSHALL"]).await;
    // The pauses are gone with all else, within a poll.
    for topup in [&topup, &fixture.topup] {
        eventually(SOON, async || {
            topup.limit("api").take(1).await.is_ok_and(|decision| decision.is_allowed())
        })
        .await;
    }
    // Away: a pause holds all the same, before any outage policy, and ends in its time.
    let sent = eventually(SOON, async || {
        let sent = clock::now();
        fixture.bucket("api").pause(millis(3_000)).await.ok().map(|_| sent)
    })
    .await;
    // It ends between these two.
    let (earliest, latest) = (sent + 3_000_000, clock::now() + 3_000_000);
    eventually(SOON, async || !topup.limit("api").take(1).await.unwrap().is_allowed()).await;
    fixture.redis.server.kill().unwrap();
    let mut denied = 0;
    eventually(SOON, async || {
        let decision = topup.limit("api").take(1).await.unwrap();
        assert!(decision.is_allowed() || matches!(decision, Decision::Denied { .. }), "{decision:?}");
        denied += u32::from(!decision.is_allowed());
        decision.is_allowed()
    })
    .await;
    let now = clock::now();
    assert!(
        denied > 10 && now > earliest - 100_000 && now < latest + 2_000_000,
        "{denied} denied, {} µs",
        now as i64 - latest as i64
    );
    // A pause that Redis cannot be told of holds here.
    assert!(topup.limit("api").pause(MINUTE).await.unwrap_err().is_transient());
}

#[tokio::test]
async fn a_host_that_asks_one_process_is_left_alone_by_all() {
    let fixture = Fixture::set(CONFIG).await;
    let other = patient(fixture.redis.url()).await;
    let host = service_fn(async |request: Request<()>| {
        let mut answer = Response::new(());
        if request.uri().path() == "/busy" {
            *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            answer.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("30"));
        }
        Ok::<_, std::convert::Infallible>(answer)
    });
    let get = |path: &str| Request::builder().uri(format!("http://example.org{path}")).body(()).unwrap();
    let layer = |topup: &Client| WaitLayer::new(topup, "slow").key(PerHost).wait(millis(2_000));
    let (one, two) = (layer(&fixture.topup).layer(host), layer(&other).layer(host));
    assert_eq!(two.clone().oneshot(get("/")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(one.oneshot(get("/busy")).await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    until_paused(&other, "slow", Some("example.org")).await;
    let denied = two.clone().oneshot(get("/")).await.unwrap_err();
    assert!(denied.to_string().starts_with("not sent: example.org asks to be left alone for "), "{denied}");
    let elsewhere = Request::builder().uri("http://example.com/").body(()).unwrap();
    assert_eq!(two.clone().oneshot(elsewhere).await.unwrap().status(), StatusCode::OK);
    other.limit("slow").key("example.org").resume().await.unwrap();
    assert_eq!(two.oneshot(get("/")).await.unwrap().status(), StatusCode::OK);
    eventually(SOON, async || fixture.bucket("slow").key("example.org").take(1).await.unwrap().is_allowed())
        .await;
}
