//! Upgrades: daemons and workers of this version beside those of a newer one.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;
use topup::{Admission, Error, OnOutage, Take};
use topup_tests::{Cli, Daemon, Pace, Redis, SOON, Signal, eventually};

use super::fixture::{Fixture, patient};

const CONFIG: &str = "
[limit.api]
capacity = 9
rate = \"1/h\"
[limit.queue]
capacity = 1
rate = \"4/s\"
[limit.lazy]
algorithm = \"lazy-token-bucket\"
capacity = 9
rate = \"1/h\"
[limit.tried]
mode = \"shadow\"
capacity = 9
rate = \"1/h\"
";
const SCHEMA: &str = "topup:{topup}:schema";
const TOLD: &str = "the keys in Redis are of schema 2, and this version knows 1 at most";

/// Everything that does not expire by itself within seconds.
async fn content(redis: &Redis) -> BTreeMap<String, Vec<u8>> {
    let mut content = BTreeMap::new();
    for key in redis.ask::<Vec<String>>(&["KEYS", "*"]).await {
        if !key.contains("{queue:")
            && let Some(dump) = redis.ask::<Option<Vec<u8>>>(&["DUMP", &key]).await
        {
            content.insert(key, dump);
        }
    }
    content
}

/// Waits until daemons and workers have sent so many more scripts: heartbeats and polls at least.
async fn scripts(redis: &Redis, more: u64) {
    let before = redis.command_calls("evalsha").await;
    eventually(SOON, async || redis.command_calls("evalsha").await >= before + more).await;
}

#[tokio::test]
async fn a_newer_schema_stops_daemons_and_workers_until_it_is_gone() {
    let mut fixture = Fixture::set(CONFIG).await;
    let (redis, topup) = (&fixture.redis, fixture.topup.clone());
    let (api, queue) = (topup.limit("api"), topup.limit("queue"));
    assert_eq!(redis.ask::<String>(&["GET", SCHEMA]).await, "1");
    for bucket in [&api, &queue, &topup.limit("lazy"), &topup.limit("tried")] {
        assert!(bucket.take(1).await.unwrap().is_allowed());
    }
    // A waiter whose tokens come, one after the other, until the schema does.
    let waiter = tokio::spawn(async move {
        loop {
            assert!(queue.wait(1, SOON).await?.is_allowed());
        }
    });

    redis.ask::<()>(&["SET", SCHEMA, "2"]).await;
    fixture.daemon.wait_for_line(TOLD, SOON).await;
    let refused = |error: &Error| matches!(error, Error::NewerSchema(newer) if newer.number() == 2);
    eventually(SOON, async || api.peek().await.is_err_and(|error| refused(&error))).await;
    let waited: Result<(), Error> = timeout(SOON, waiter).await.unwrap().unwrap();
    assert!(waited.is_err_and(|error| refused(&error)));
    let before = content(redis).await;
    let commands = [redis.command_calls("decr").await, redis.command_calls("set").await];
    scripts(redis, 16).await;
    for bucket in [api.clone(), topup.limit("lazy"), topup.limit("queue")] {
        assert!(bucket.take(1).await.is_err_and(|error| refused(&error)));
        assert!(bucket.wait(1, Duration::from_secs(1)).await.is_err_and(|error| refused(&error)));
        assert!(
            bucket.refund(1).await.is_err() && bucket.reset().await.is_err() && bucket.peek().await.is_err()
        );
    }
    assert!(topup.take_all([(api.clone(), 1), (topup.limit("lazy"), 1)]).await.is_err());
    assert!(topup.throttle("alice", 1, 1, 1, 1).await.is_err_and(|error| refused(&error)));
    let error = api.take(1).await.unwrap_err();
    assert!(!error.is_transient() && error.to_string() == format!("{TOLD}: upgrade this worker"), "{error}");
    // The policy decides, and a limit in shadow stops nothing.
    let undecided = topup.undecided();
    let admission = || Admission::of(&topup).take(Take::of("api"));
    assert!(admission().decide_or(OnOutage::Allow).await.is_ok());
    assert!(admission().decide_or(OnOutage::Deny).await.is_err());
    assert_eq!(topup.undecided(), undecided + 2);
    assert!(topup.limit("tried").take(1).await.unwrap().is_allowed());
    for word in ["take", "peek", "reset"] {
        let told = Cli::new(&[word, "api"]).redis(redis).run().await;
        assert_eq!(told.code, Some(2));
        assert!(told.stderr.contains(TOLD), "{told:?}");
    }
    let told = Cli::new(&["status"]).redis(redis).run().await;
    assert!(told.code == Some(4) && told.stdout.contains(TOLD), "{told:?}");
    // A client that comes now is told as late as by its first take.
    let late = patient(redis.url()).await;
    assert!(late.limit("api").take(1).await.is_err_and(|error| refused(&error)));
    // A reload waits, too.
    fixture.daemon.reload(&CONFIG.replace("capacity = 9", "capacity = 10"));
    fixture.daemon.wait_for_line("reloaded: ", SOON).await;
    fixture.daemon.signal(Signal::USR1);
    fixture.daemon.wait_for_line("connected, writes nothing: the keys in Redis", SOON).await;
    scripts(redis, 8).await;
    assert_eq!(content(redis).await, before, "something was written");
    let after = [redis.command_calls("decr").await, redis.command_calls("set").await];
    // `topupd status` asks once whether Redis writes, in a way that changes nothing.
    assert_eq!(after, [commands[0], commands[1] + 1]);
    assert_eq!(fixture.daemon.lines().iter().filter(|line| line.contains("neither publishes")).count(), 1);

    redis.ask::<()>(&["SET", SCHEMA, "1"]).await;
    fixture.daemon.wait_for_line("the schema in Redis is known again", SOON).await;
    eventually(SOON, async || api.peek().await.is_ok_and(|seen| seen.capacity() == 10)).await;
    assert_eq!(api.take(1).await.unwrap().remaining(), 7, "a take before, and one now");
}

#[tokio::test]
async fn a_daemon_that_starts_under_a_newer_schema_lives_and_writes_nothing() {
    let redis = Redis::start().await;
    redis.ask::<()>(&["SET", SCHEMA, "2"]).await;
    // A counter that its sweep would remove.
    redis.ask::<i64>(&["DECR", "topup:{gone:0}:b:"]).await;
    let mut daemon = Daemon::spawn(CONFIG, &redis);
    daemon.wait_for_line(TOLD, SOON).await;
    scripts(&redis, 10).await;
    let mut keys: Vec<String> = redis.ask(&["KEYS", "*"]).await;
    keys.sort_unstable();
    assert_eq!(keys, ["topup:{gone:0}:b:", SCHEMA]);
    // It ends as any other, and another one takes over once the schema is gone.
    assert!(daemon.end(Signal::TERM, SOON).await.success());
    let mut daemon = Daemon::spawn(CONFIG, &redis);
    daemon.wait_for_line(TOLD, SOON).await;
    redis.ask::<u64>(&["DEL", SCHEMA]).await;
    daemon.wait_for_line("ready", SOON).await;
    assert_eq!(redis.ask::<String>(&["GET", SCHEMA]).await, "1");
    assert!(patient(redis.url()).await.limit("api").take(1).await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_limit_in_a_form_of_a_newer_version_is_an_error_of_its_own() {
    let mut fixture = Fixture::set(CONFIG).await;
    fixture.kill_daemon().await;
    let (redis, topup) = (&fixture.redis, fixture.topup.clone());
    // By a worker that has neither a log nor a feature that it would need.
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args([redis.url(), "api", &Pace::steady(Duration::from_millis(5)).to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut told = BufReader::new(worker.stderr.take().unwrap()).lines();
    for (field, value) in [("algorithm", "quantum-bucket"), ("mode", "dream")] {
        let before: String = redis.ask(&["HGET", "topup:{api:0}:limit", field]).await;
        redis.ask::<u64>(&["HSET", "topup:{api:0}:limit", field, value]).await;
        redis.ask::<u64>(&["INCR", "topup:{topup}:generation"]).await;
        let unreadable =
            |error: &Error| matches!(error, Error::UnreadableLimit { limit, .. } if limit == "api");
        let api = topup.limit("api");
        eventually(SOON, async || api.take(1).await.is_err_and(|error| unreadable(&error))).await;
        let error = api.take(1).await.unwrap_err();
        for part in ["limit \"api\"", field, value, "upgrade this worker"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(!error.is_transient());
        let admission = || Admission::of(&topup).take(Take::of("api"));
        assert!(admission().decide_or(OnOutage::Allow).await.is_ok());
        assert!(admission().decide_or(OnOutage::Deny).await.is_err());
        assert!(topup.limit("lazy").take(1).await.unwrap().is_allowed(), "of other limits nothing changes");
        // Once, although it takes again and again.
        let line = timeout(SOON, told.next_line()).await.unwrap().unwrap().unwrap();
        assert!(
            line.starts_with("topup: limit \"api\" is published in a form") && line.contains(value),
            "{line}"
        );
        redis.ask::<u64>(&["HSET", "topup:{api:0}:limit", field, &before]).await;
        redis.ask::<u64>(&["INCR", "topup:{topup}:generation"]).await;
        eventually(SOON, async || api.take(1).await.is_ok()).await;
        eventually(SOON, async || {
            let before = redis.command_calls("hgetall").await;
            scripts(redis, 2).await;
            redis.command_calls("hgetall").await == before
        })
        .await;
    }
    // The next line is about the next event.
    redis.ask::<()>(&["SET", SCHEMA, "2"]).await;
    let line = timeout(SOON, told.next_line()).await.unwrap().unwrap().unwrap();
    assert!(line.starts_with(&format!("topup: {TOLD}")), "{line}");
}
