//! Incidents of Redis, as a worker meets them: errors that pass, and the tokens afterwards.

use std::time::Duration;

use redis::Cmd;
use topup::{Bucket, Client};
use topup_embedded::RedisServer;
use topup_tests::{Daemon, Incident, Launch, Loading, Redis, SOON, Signal, eventually};

use super::fixture::{Fixture, patient, ready};

const CONFIG: &str = "[limit.api]\ncapacity = 100\nrate = \"1/h\"\n\
                      [limit.busy]\ncapacity = 100\nrate = \"1/h\"\n\
                      [limit.lazy]\ncapacity = 100\nrate = \"1/h\"\nalgorithm = \"lazy-token-bucket\"\n";
/// Limits of an integer at rest, of a counter, and of a script alone.
const LIMITS: [&str; 3] = ["api", "busy", "lazy"];

/// Each take fails with an error of this code that may pass.
async fn refuses(buckets: &[Bucket], code: &str) {
    for bucket in buckets {
        let error = bucket.take(1).await.unwrap_err();
        assert!(error.is_transient() && error.to_string().to_uppercase().contains(code), "{code}: {error}");
    }
}

/// A refused take takes nothing, and a bucket is asked again as soon as the incident is over.
#[tokio::test]
async fn an_incident_passes_and_costs_no_token() {
    let redis = Redis::with(RedisServer::builder().tcp().arg("--dbfilename", "folder")).await;
    let fixture = Fixture::on(redis, CONFIG).await;
    let redis = &fixture.redis;
    let buckets = LIMITS.map(|limit| fixture.bucket(limit));
    let mut left = 100;
    // Many takes at once make the bucket count.
    let mut takes: Vec<_> = (0..20).map(|_| fixture.bucket("busy")).collect();
    for bucket in &mut takes {
        assert!(bucket.take(1).await.unwrap().is_allowed());
    }
    fixture.bucket("busy").refund(20).await.unwrap();
    let mut goes_on = async || {
        left -= 1;
        for bucket in &buckets {
            let taken = eventually(SOON, async || bucket.take(1).await).await;
            assert_eq!((taken.is_allowed(), taken.remaining()), (true, left), "{bucket:?}");
        }
    };
    goes_on().await;

    for (incident, code) in [
        (Incident::Memory, "OOM"),
        (Incident::Replicas, "NOREPLICAS"),
        (Incident::Replica, "READONLY"),
        (Incident::Disk, "MISCONF"),
        (Incident::Busy, "BUSY"),
    ] {
        incident.begin(redis).await;
        refuses(&buckets, code).await;
        incident.end(redis).await;
        goes_on().await;
    }
}

/// With every write on disk, a Redis that is killed comes back with every take but those in flight.
#[tokio::test]
async fn a_redis_killed_and_back_with_all_data_has_every_take() {
    let append = RedisServer::builder().tcp().arg("--appendonly", "yes").arg("--appendfsync", "always");
    let mut fixture = Fixture::on(Redis::with(append).await, CONFIG).await;
    for left in (95..100).rev() {
        for limit in LIMITS {
            assert_eq!(fixture.bucket(limit).take(1).await.unwrap().remaining(), left);
        }
    }
    fixture.redis.server.kill().unwrap();
    let error = eventually(SOON, async || fixture.bucket("lazy").take(1).await.err()).await;
    assert!(error.is_transient(), "{error}");
    fixture.redis.server.restart().unwrap();
    for limit in LIMITS {
        let bucket = fixture.bucket(limit);
        let peeked = eventually(SOON, async || bucket.peek().await).await;
        assert_eq!(peeked.remaining(), 95, "{limit}");
    }
}

#[tokio::test]
async fn a_redis_that_loads_its_data_may_be_asked_again() {
    let redis = Redis::start().await;
    let option = "loading-process-events-interval-bytes";
    if redis.ask::<Vec<String>>(&["CONFIG", "GET", option]).await.is_empty() {
        return println!("void: this server has no option {option}");
    }
    let data: Vec<_> = (0..10_000).map(|key| (format!("{key:0100}"), "1".to_owned())).collect();
    let loading = Loading::of(&redis, &data, 2_000).await;
    let topup = Client::builder().connect_lazy(loading.url()).unwrap();
    let loads = async || {
        let client = redis::Client::open(loading.url()).map_err(|error| error.to_string())?;
        let asked = client.get_multiplexed_async_connection().await;
        let told = match asked {
            Ok(mut connection) => Cmd::get("x").query_async::<()>(&mut connection).await,
            Err(error) => Err(error),
        };
        let text = told.err().map(|error| format!("{error:?}")).unwrap_or_default();
        if text.to_uppercase().contains("LOADING") { Ok(()) } else { Err(text) }
    };
    eventually(SOON, loads).await;
    for _ in 0..5 {
        let error = topup.limit("api").take(1).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
}

/// Tokens in hand die with their worker. Other workers lose and gain none.
#[tokio::test]
async fn a_worker_that_is_killed_takes_its_tokens_in_hand_with_it() {
    const LEASED: &str = "[limit.api]\ncapacity = 400\nrate = \"1/h\"\nlease = { max = 50, ttl = \"60s\" }\n";
    let fixture = Fixture::set(LEASED).await;
    let mut workers = fixture.workers(1, "api", Duration::from_millis(1)).await;
    workers.log.allowed(60).await;
    let attempts = workers.kill().await;
    let taken = attempts.iter().filter(|attempt| attempt.is_allowed()).count() as u64;
    let mut left = 0;
    while fixture.bucket("api").take(1).await.unwrap().is_allowed() {
        left += 1;
    }
    // Tokens that the worker took and has not reported may be missing.
    println!("{taken} taken, {left} left of 400");
    assert!((350..=400).contains(&(taken + left)), "{taken} + {left}");
}

/// A user who may not run the command stands for a server that does not have it.
#[tokio::test]
async fn without_takes_at_rest_scripts_decide() {
    let redis = Redis::tcp().await;
    let (_daemon, url) = (ready(CONFIG, &redis).await, redis.url().to_owned());
    redis.ask::<()>(&["ACL", "SETUSER", "old", "on", ">old", "~*", "+@all", "-pexpireat"]).await;
    let topup = patient(&url.replace("redis://", "redis://old:old@")).await;
    let allowed = async |count: usize| {
        let mut allowed = 0;
        for _ in 0..count {
            allowed += u64::from(topup.limit("api").take(1).await.unwrap().is_allowed());
        }
        allowed
    };
    // Until the first refusal is known, its tokens are in doubt.
    assert!(allowed(10).await >= 5);
    redis.reset_stats().await;
    let more = allowed(95).await;
    assert_eq!(redis.command_calls("pexpireat").await, 0);
    assert!((80..=95).contains(&more), "{more}");
    assert_eq!(allowed(3).await, 0);
}

/// A daemon that is cut off in silence takes no token with it, and gives none twice when it is back.
#[tokio::test]
async fn a_daemon_that_is_stopped_or_cut_off_doubles_no_token() {
    const COUNTING: &str = "[daemon]\ntick = \"20ms\"\n[limit.api]\ncapacity = 10\nrate = \"100/s\"\n";
    let redis = Redis::start().await;
    let proxy = topup_tests::Proxy::before(&redis).await;
    let mut daemon: Daemon = Launch::new(COUNTING).env("TOPUP_REDIS_URL", proxy.url()).run();
    daemon.wait_for_line("ready", SOON).await;
    let topup = patient(redis.url()).await;
    let tasks = super::fixture::Tasks::start((0..4).map(|_| topup.limit("api")), Duration::from_millis(8));
    tasks.log.allowed(40).await;
    for stopped in [true, false] {
        if stopped {
            daemon.signal(Signal::STOP)
        } else {
            proxy.hang()
        }
        // Its heartbeat runs out.
        let alone = async || {
            redis
                .ask::<u64>(&[
                    "ZCOUNT",
                    "topup:{topup}:daemons",
                    &format!("({}", super::fixture::now(&redis).await),
                    "+inf",
                ])
                .await
                == 0
        };
        eventually(SOON, alone).await;
        tasks.log.allowed(30).await;
        if stopped {
            daemon.signal(Signal::CONT)
        } else {
            proxy.pass()
        }
        eventually(SOON, async || !alone().await).await;
        tasks.log.allowed(30).await;
    }
    let attempts = tasks.stop().await;
    super::oracle::no_errors(&attempts);
    super::oracle::Oracle::new(10, 100.0).judge(&attempts).never_over();
}
