//! Redis away, restarted, hung: calls fail in time and in kind, and all is well again by itself.

use std::{fmt::Debug, time::Duration};

use topup::{Bucket, Client, Error};
use topup_tests::{Answer, Attempt, Incident, Redis, SOON, Stalls, clock, eventually};

use super::{
    fixture::{Fixture, Tasks, briefly_patient},
    oracle::Oracle,
};

const CONFIG: &str = "[limit.api]\ncapacity = 10\nrate = \"100/s\"\n[limit.lazy]\ncapacity = 10\nrate = \"100/s\"\n\
                      algorithm = \"lazy-token-bucket\"\n[limit.quiet]\ncapacity = 10\nrate = \"100/s\"\n";

/// Ten times the default deadline, in µs: a take that is slower waits for something else. The simulation holds the
/// deadline to the µs.
const IN_TIME: u64 = 10 * 250_000;

/// A machine that stands still for longer makes errors of its own.
const HALF_A_DEADLINE: Duration = Duration::from_millis(125);

/// A fixture whose client has the deadline it has unless told otherwise.
async fn impatient(redis: Redis) -> Fixture {
    let fixture = Fixture::on(redis, CONFIG).await;
    let topup = Client::connect(fixture.redis.url()).await.unwrap();
    Fixture { topup, ..fixture }
}

/// Limits that nobody takes from but the test: a denial remembered from before would be an answer without Redis.
const QUIET: [&str; 2] = ["quiet", "lazy"];

/// Every operation there is fails with an error that may pass, in time.
async fn assert_away(bucket: &Bucket) {
    fails_in_time(bucket.take(1)).await;
    fails_in_time(bucket.peek()).await;
    fails_in_time(bucket.refund(1)).await;
    fails_in_time(bucket.reset()).await;
    fails_in_time(bucket.wait(1, SOON)).await;
}

async fn fails_in_time<T: Debug>(operation: impl Future<Output = Result<T, Error>>) {
    let sent = clock::now();
    let error = operation.await.unwrap_err();
    let took = clock::now() - sent;
    assert!(took <= IN_TIME, "{took} µs: {error}");
    assert!(error.is_transient(), "{error}");
}

fn in_time_and_transient(attempts: &[Attempt]) {
    for attempt in attempts {
        assert!(!matches!(attempt.answer, Answer::Failed(_)), "{attempt:?}");
        assert!(attempt.received - attempt.sent <= IN_TIME, "{attempt:?}");
    }
}

#[tokio::test]
async fn a_killed_redis_is_told_at_once_and_found_again() {
    let (mut fixture, stalls) = (impatient(Redis::tcp().await).await, Stalls::watch());
    let tasks = Tasks::start((0..4).map(|_| fixture.bucket("api")), Duration::from_millis(8));
    tasks.log.allowed(30).await;
    fixture.redis.server.kill().unwrap();
    eventually(SOON, async || fixture.bucket("api").peek().await.is_err()).await;
    for limit in QUIET {
        assert_away(&fixture.bucket(limit)).await;
    }
    fixture.redis.server.restart().unwrap();
    // The same client: nobody connects it again by hand.
    for limit in ["api", "lazy"] {
        let _ = eventually(SOON, async || fixture.bucket(limit).take(1).await).await;
    }
    let back = clock::now();
    tasks.log.allowed(40).await;
    let attempts = tasks.stop().await;
    let unknown = |attempt: &Attempt| attempt.error().is_some_and(|error| error.contains("no limit"));
    let known: Vec<Attempt> = attempts.iter().filter(|attempt| !unknown(attempt)).cloned().collect();
    in_time_and_transient(&known);
    let after: Vec<Attempt> = attempts.into_iter().filter(|attempt| attempt.sent > back).collect();
    assert!(after.iter().any(Attempt::is_allowed));
    let failed = after.iter().filter(|attempt| attempt.error().is_some()).count();
    if stalls.below(HALF_A_DEADLINE, "errors after the outage") {
        assert_eq!(failed, 0, "after it was back");
    }
}

#[tokio::test]
async fn a_hung_redis_holds_no_caller_up() {
    let fixture = impatient(Redis::start().await).await;
    let bucket = fixture.bucket("api");
    let tasks = Tasks::start((0..4).map(|_| fixture.bucket("api")), Duration::from_millis(8));
    tasks.log.allowed(30).await;
    fixture.redis.server.pause().unwrap();
    for limit in ["api", "lazy"] {
        // From memory a denial may still be told, for as long as it holds.
        eventually(SOON, async || fixture.bucket(limit).take(1).await.is_err()).await;
    }
    assert_away(&fixture.bucket("lazy")).await;
    fixture.redis.server.resume().unwrap();
    let _ = eventually(SOON, async || bucket.peek().await).await;
    tasks.log.allowed(40).await;
    let attempts = tasks.stop().await;
    in_time_and_transient(&attempts);
    // Takes that were given up may have been carried out: tokens may be lost to them, none is given twice. The tokens of
    // the command in flight, one for each task, may count too late, since Redis hung for longer than 250 ms.
    Oracle::new(10, 100.0).early(4.0).judge(&attempts).never_over();
    let last =
        attempts.iter().filter(|attempt| attempt.error().is_some()).map(|attempt| attempt.received).max();
    assert!(
        attempts.iter().any(|attempt| attempt.is_allowed() && Some(attempt.sent) > last),
        "it goes on after"
    );
}

#[tokio::test]
async fn a_deadline_is_as_short_as_it_is_set() {
    let fixture = Fixture::set(CONFIG).await;
    // On a busy machine, some takes are too slow for it. A client that met one may be about to find that Redis does not reply.
    let topup = eventually(SOON, async || {
        let topup =
            Client::builder().deadline(Duration::from_millis(20)).connect(fixture.redis.url()).await?;
        topup.limit("lazy").take(1).await.map(|_| topup)
    })
    .await;
    fixture.redis.server.pause().unwrap();
    let (sent, stalls) = (clock::now(), Stalls::watch());
    let error = topup.limit("lazy").take(1).await.unwrap_err();
    let took = clock::now() - sent;
    fixture.redis.server.resume().unwrap();
    assert!(
        matches!(error, Error::DeadlineExceeded { deadline } if deadline == Duration::from_millis(20)),
        "{error}"
    );
    // The watch may not have run yet since the last wait for a CPU.
    let stalled = stalls.worst() + stalls.waited();
    assert!((20_000..220_000 + stalled).contains(&took), "{took} µs, stalled for {stalled}");
}

#[tokio::test]
async fn a_redis_that_is_full_or_a_replica_may_be_asked_again() {
    let fixture = Fixture::set(CONFIG).await;
    fixture.redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = fixture.bucket("lazy").take(1).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("OOM"), "{error}");
    fixture.redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    Incident::Replica.begin(&fixture.redis).await;
    for limit in ["api", "lazy"] {
        let error = fixture.bucket(limit).take(1).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
    Incident::Replica.end(&fixture.redis).await;
    assert!(fixture.bucket("lazy").take(1).await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_password_that_was_wrong_for_a_while_leaves_no_worker_behind() {
    let redis = Redis::tcp().await;
    let url = redis.url().replace("redis://", "redis://:right@");
    let fixture = Fixture::on(redis, CONFIG).await;
    let password = async |password: &str| {
        let _: String = fixture.redis.ask(&["CONFIG", "SET", "requirepass", password]).await;
    };
    let cut = async || {
        let _: u64 = fixture.redis.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    };
    password("right").await;
    let topup = briefly_patient(&url).await;
    assert!(topup.limit("quiet").take(1).await.unwrap().is_allowed());
    password("wrong").await;
    cut().await;
    // Not the break, which passes by itself, but the refusal after it.
    eventually(SOON, async || topup.limit("quiet").peek().await.is_err_and(|error| !error.is_transient()))
        .await;
    password("right").await;
    let _ = eventually(SOON, async || topup.limit("quiet").peek().await).await;
}
