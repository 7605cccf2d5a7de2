//! Limits that code defines: under the laws of all limits, with an owner, for as long as they are renewed.

use std::time::Duration;

use tokio::{sync::watch, task::JoinSet};
use topup::{Client, Defined, Error, OnChange, Terms};
use topup_tests::{Cli, Redis, SOON, Signal, eventually};

use super::{
    fixture::{Fixture, Tasks, now, patient, ready},
    oracle::{Oracle, no_errors},
};

const API: &str = "[limit.api]\ncapacity = 10\nrate = \"100/s\"\n";
const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

/// Clients that know nothing of each other.
async fn clients(redis: &Redis, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(patient(redis.url()).await);
    }
    clients
}

/// Keys of Redis that tell of the limit `name`.
async fn keys_of(redis: &Redis, name: &str) -> Vec<String> {
    let mut keys = redis.ask::<Vec<String>>(&["KEYS", &format!("topup:{{{name}:*")]).await;
    for hash in ["limits", "defined"] {
        let hash = format!("topup:{{topup}}:{hash}");
        if redis.ask::<Option<String>>(&["HGET", &hash, name]).await.is_some() {
            keys.push(hash);
        }
    }
    if redis.ask::<Option<String>>(&["ZSCORE", "topup:{topup}:ends", name]).await.is_some() {
        keys.push("topup:{topup}:ends".to_owned());
    }
    keys
}

fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::UnknownLimit { .. })
}

/// One of two terms, in turn.
fn terms(turn: usize) -> Terms {
    match turn % 2 {
        0 => Terms::token_bucket(10, "100/s"),
        _ => Terms::token_bucket(20, "50/s").on_change(OnChange::Keep),
    }
}

/// Defines the limit `name` with one terms after the other until it is stopped. Returns the changes.
async fn define_again_and_again(
    client: Client,
    name: String,
    task: usize,
    stopped: watch::Receiver<bool>,
) -> u64 {
    let mut changes = 0;
    for round in 0.. {
        if *stopped.borrow() {
            break;
        }
        let defined = client.define(&name, terms(task + round)).owner("billing").await;
        if !matches!(defined, Err(Error::DefinitionContested { .. })) {
            let defined = defined.unwrap();
            assert_ne!(defined, Defined::New, "{name} was lost");
            changes += u64::from(defined == Defined::Changed);
        }
    }
    changes
}

/// Has `tasks` tasks of several clients define one limit, each with one terms after the other, while others take from it.
async fn quarrel(redis: &Redis, tasks: usize) {
    let (definers, takers) = (clients(redis, tasks.min(4)).await, clients(redis, 4).await);
    let name = format!("tenant-{tasks}");
    let first = definers[0].define(&name, terms(0)).owner("billing").await.unwrap();
    assert_eq!(first, Defined::New);
    let load = Tasks::start(takers.iter().map(|taker| taker.limit(&name)), Duration::from_millis(4));
    let (stop, stopped) = watch::channel(false);
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let client = definers[task % definers.len()].clone();
        running.spawn(define_again_and_again(client, name.clone(), task, stopped.clone()));
    }
    // Some seconds of takes, whatever the tasks come to.
    load.log.allowed(250).await;
    stop.send_replace(true);
    let mut changes = 0;
    while let Some(ended) = running.join_next().await {
        changes += ended.unwrap();
    }
    let attempts = load.stop().await;
    no_errors(&attempts);
    let judgement = Oracle::new(20, 100.0).judge(&attempts).never_over();
    println!("{tasks} tasks: {changes} changes, {judgement:?}");
    assert!(changes > 0, "{tasks} tasks change nothing");
    // One word ends the quarrel, and holds for all clients from the same instant.
    let last = Terms::token_bucket(7, "1/h").on_change(OnChange::Reset);
    definers[0].define(&name, last).owner("billing").await.unwrap();
    for (left, client) in (0..7).rev().zip(definers.iter().chain(&takers).cycle()) {
        let bucket = client.limit(&name);
        eventually(SOON, async || bucket.peek().await.unwrap().capacity() == 7).await;
        assert_eq!(bucket.take(1).await.unwrap().remaining(), left);
    }
}

/// No window gives more than the larger of all terms.
#[tokio::test]
async fn law_1_holds_while_many_define_a_limit_with_different_terms() {
    let fixture = Fixture::set(API).await;
    tokio::join!(quarrel(&fixture.redis, 1), quarrel(&fixture.redis, 4), quarrel(&fixture.redis, 16));
}

/// A change is in force for all clients at one instant, and tokens are kept.
#[tokio::test]
async fn a_change_by_code_obeys_law_6() {
    let fixture = Fixture::set(API).await;
    let (definer, takers) = (patient(fixture.redis.url()).await, clients(&fixture.redis, 4).await);
    let define = |terms| definer.define("tenant", terms).expires_in(HOUR);
    define(Terms::token_bucket(10, "50/s")).await.unwrap();
    let load = Tasks::start(takers.iter().map(|taker| taker.limit("tenant")), Duration::from_millis(5));
    load.log.allowed(60).await;
    assert_eq!(define(Terms::token_bucket(10, "200/s")).await.unwrap(), Defined::Changed);
    let since: u64 = fixture.redis.ask(&["HGET", "topup:{tenant:0}:limit", "since"]).await;
    let before = topup_tests::clock::now();
    let changed = before - (now(&fixture.redis).await - since);
    load.log.allowed(200).await;
    let attempts = load.stop().await;
    no_errors(&attempts);
    let judgement = Oracle::new(10, 50.0).then(changed, 200.0).judge(&attempts).never_over().within(0.02);
    println!("{judgement:?}");

    // Buckets of keys, at rest and counting, keep their tokens, too.
    let keyed = |capacity| define(Terms::token_bucket(capacity, "1/h").keyed());
    keyed(10).await.unwrap();
    for (client, key) in takers.iter().zip(["a", "b", "c", "d"]) {
        // Others know of the keys by their next poll.
        eventually(SOON, async || client.limit("tenant").key(key).peek().await.is_ok()).await;
        for _ in 0..4 {
            assert!(client.limit("tenant").key(key).take(1).await.unwrap().is_allowed());
        }
    }
    assert_eq!(keyed(20).await.unwrap(), Defined::Changed);
    for key in ["a", "b", "c", "d"] {
        assert_eq!(definer.limit("tenant").key(key).take(1).await.unwrap().remaining(), 5, "{key}");
    }
    // Another algorithm begins with full buckets, as by a reload.
    define(Terms::sliding_window(["3/h"]).keyed()).await.unwrap();
    assert_eq!(definer.limit("tenant").key("a").take(1).await.unwrap().remaining(), 2);
    define(Terms::gcra(9, "1/h").keyed()).await.unwrap();
    assert_eq!(definer.limit("tenant").key("a").take(1).await.unwrap().remaining(), 8);
    // One bucket for all has none in common with those of keys.
    define(Terms::gcra(9, "1/h")).await.unwrap();
    assert_eq!(definer.limit("tenant").take(2).await.unwrap().remaining(), 7);
    let buckets = fixture.redis.ask::<Vec<String>>(&["KEYS", "topup:{tenant:0}:?:*"]).await;
    assert_eq!(buckets, ["topup:{tenant:0}:g:"]);
}

#[tokio::test]
async fn an_owner_keeps_a_limit_from_configs_and_other_owners_and_a_config_from_code() {
    let mut fixture = Fixture::set(API).await;
    let other = patient(fixture.redis.url()).await;
    let topup = fixture.topup.clone();
    let terms = || Terms::token_bucket(5, "1/h");
    let refused = topup.define("api", terms()).await.unwrap_err();
    assert!(matches!(&refused, Error::OfConfig { config: Some(_), .. }), "{refused}");
    assert!(refused.to_string().contains("config.toml"), "{refused}");
    assert_eq!(topup.limit("api").peek().await.unwrap().capacity(), 10);

    assert_eq!(topup.define("tenant", terms()).owner("billing").await.unwrap(), Defined::New);
    assert_eq!(topup.limit("tenant").take(1).await.unwrap().remaining(), 4);
    assert_eq!(other.limit("tenant").take(1).await.unwrap().remaining(), 3);
    for refused in [
        other.define("tenant", Terms::gcra(50, "1/s")).owner("sales").await.map(drop),
        other.define("tenant", terms()).await.map(drop),
        other.undefine("tenant").owner("sales").await.map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, Error::DefinedByOther { owner, .. } if owner == "billing"), "{refused}");
    }
    assert_eq!(other.define("tenant", terms()).owner("billing").await.unwrap(), Defined::Renewed);
    assert_eq!(other.limit("tenant").take(1).await.unwrap().remaining(), 2);
    for (wrong, said) in [
        (other.define("tenant", Terms::token_bucket(0, "1/s")).await, "a capacity is a whole number"),
        (other.define("a b", terms()).await, "is not a limit's name"),
        (other.define("x", terms()).owner("a b").await, "is not an owner's name"),
        (other.define("x", terms()).expires_in(Duration::ZERO).await, "is defined for 1s to 366d"),
    ] {
        let wrong = wrong.unwrap_err().to_string();
        assert!(wrong.contains(said), "{wrong}");
    }
    assert_eq!(keys_of(&fixture.redis, "x").await, [""; 0]);

    let told = Cli::new(&["status"]).redis(&fixture.redis).run().await;
    assert!(told.stdout.contains("tenant: defined by code, owner billing, until 20"), "{told:?}");
    assert_eq!(told.code, Some(0), "{told:?}");
    let told = Cli::new(&["limits", "--json"]).redis(&fixture.redis).run().await;
    assert!(told.stdout.contains("\"config\":\"billing\"") && told.stdout.contains("\"defined_until\":\"20"));

    // A reload leaves it as it is. A config that names it is refused.
    fixture.reload(&API.replace("100/s", "200/s")).await;
    let wanting = format!("{API}[limit.tenant]\ncapacity = 99\nrate = \"1/h\"\n");
    let told = Cli::new(&["plan"]).redis(&fixture.redis).config(&wanting).run().await;
    assert!(told.stdout.contains("limit tenant refused: billing has defined it by code"), "{told:?}");
    fixture.reload(&wanting).await;
    fixture.daemon.wait_for_line("limit tenant refused: billing has defined it by code", SOON).await;
    assert_eq!(other.limit("tenant").take(1).await.unwrap().remaining(), 1);
    assert_eq!(topup.define("tenant", terms()).owner("billing").await.unwrap(), Defined::Renewed);

    // Its end makes room.
    assert!(topup.undefine("tenant").owner("billing").await.unwrap());
    eventually(SOON, async || other.limit("tenant").peek().await.is_ok_and(|told| told.capacity() == 99))
        .await;
    let refused = topup.define("tenant", terms()).owner("billing").await.unwrap_err();
    assert!(matches!(refused, Error::OfConfig { .. }), "{refused}");
    assert!(matches!(topup.undefine("tenant").owner("billing").await, Err(Error::OfConfig { .. })));
    assert!(!topup.undefine("unheard-of").await.unwrap());

    // By hand.
    let by_hand =
        async |words: &str| Cli::new(&words.split(' ').collect::<Vec<_>>()).redis(&fixture.redis).run().await;
    let told = by_hand("define ops-limit --capacity 5 --rate 1/h --owner ops --expires-in 1h").await;
    assert!(told.stdout.starts_with("limit ops-limit: new, owner ops, until 20"), "{told:?}");
    assert_eq!(topup.limit("ops-limit").take(1).await.unwrap().remaining(), 4);
    let told = by_hand("define ops-limit --capacity 6 --rate 1/h --owner ops --json").await;
    assert!(told.stdout.contains("\"defined\":\"changed\""), "{told:?}");
    for (words, code, said) in [
        ("define ops-limit --capacity 6 --rate 1/h", 2, "ops has defined it by code"),
        ("define api --capacity 6 --rate 1/h", 2, "a config has a limit of this name"),
        ("define new --capacity 6 --rate 0.5/s", 64, "write whole tokens over a longer interval"),
        (
            "define new --algorithm fixed-window --capacity 6 --rate 1/s",
            64,
            "fixed-window needs one --window",
        ),
        ("undefine ops-limit --owner ops", 0, "removed limit ops-limit"),
        ("undefine ops-limit --owner ops", 0, "limit ops-limit is not defined"),
    ] {
        let told = by_hand(words).await;
        assert!(told.code == Some(code) && format!("{told:?}").contains(said), "{words}: {told:?}");
    }

    // A removal by hand names the owner.
    topup.define("by-hand", terms().keyed()).owner("billing").await.unwrap();
    assert!(topup.limit("by-hand").key("a").take(1).await.unwrap().is_allowed());
    let told = Cli::new(&["remove", "by-hand"]).redis(&fixture.redis).run().await;
    assert!(told.stdout.contains("which billing had defined by code"), "{told:?}");
    assert_eq!(keys_of(&fixture.redis, "by-hand").await, [""; 0]);
}

/// A limit that nobody renews ends, whether a daemon is alive or not.
#[tokio::test]
async fn a_limit_that_nobody_renews_ends_and_one_that_is_renewed_stays() {
    let redis = Redis::start().await;
    let (topup, other) = (patient(redis.url()).await, patient(redis.url()).await);
    let unknown = async |client: &Client, limit: &str| match client.limit(limit).peek().await {
        Err(error) if is_unknown(&error) => Ok(()),
        other => Err(other),
    };
    // Nothing but Redis.
    let keyed = || Terms::token_bucket(100, "1/h").keyed();
    topup.define("long", keyed()).expires_in(HOUR).await.unwrap();
    topup.define("short", Terms::token_bucket(3, "1/h")).expires_in(SECOND).await.unwrap();
    for _ in 0..6 {
        assert!(other.limit("long").key("alice").take(1).await.unwrap().is_allowed());
    }
    eventually(SOON, async || unknown(&topup, "short").await).await;
    eventually(SOON, async || unknown(&other, "short").await).await;
    assert_ne!(keys_of(&redis, "short").await, [""; 0], "nobody has removed it");
    assert_eq!(other.limit("long").key("alice").take(1).await.unwrap().remaining(), 93);
    // It may be renewed late, or go to another owner.
    let short = || Terms::token_bucket(3, "1/h");
    assert_eq!(topup.define("short", short()).expires_in(SECOND).await.unwrap(), Defined::Renewed);
    let of_other = async || other.define("short", short()).owner("other").expires_in(3 * SECOND).await;
    assert_eq!(eventually(SOON, of_other).await, Defined::New);
    assert_eq!(topup.limit("short").take(1).await.unwrap().remaining(), 2, "it begins anew");

    // A daemon that comes later removes what has ended, keeps what has not, and refills it.
    let mut daemon = ready(API, &redis).await;
    eventually(SOON, async || {
        let left = keys_of(&redis, "short").await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    daemon.wait_for_line("limit short: nobody renewed its definition", SOON).await;
    assert_eq!(other.limit("long").key("alice").take(1).await.unwrap().remaining(), 92);
    topup.define("filling", Terms::token_bucket(50, "100/s")).await.unwrap();
    let bucket = topup.limit("filling");
    for _ in 0..40 {
        assert!(bucket.take(1).await.unwrap().is_allowed());
    }
    eventually(SOON, async || {
        let left = redis.ask::<Vec<String>>(&["KEYS", "topup:{filling:0}:[^lc]*"]).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    // A renewal in time keeps a limit, and brings no end nearer.
    let kept = |ttl| topup.define("kept", Terms::token_bucket(3, "1/h")).expires_in(ttl).into_future();
    let first_end = now(&redis).await + 3_000_000;
    assert_eq!(kept(3 * SECOND).await.unwrap(), Defined::New);
    assert_eq!(other.limit("kept").take(1).await.unwrap().remaining(), 2);
    assert_eq!(
        (kept(HOUR).await.unwrap(), kept(SECOND).await.unwrap()),
        (Defined::Renewed, Defined::Renewed)
    );
    eventually(SOON, async || {
        assert_eq!(other.limit("kept").peek().await.unwrap().remaining(), 2);
        now(&redis).await > first_end + 1_500_000
    })
    .await;
    daemon.signal(Signal::KILL);
    daemon.wait_exit(SOON).await;
    assert_eq!(other.limit("kept").take(1).await.unwrap().remaining(), 1);
    // A Redis that has lost everything is told again.
    redis.ask::<()>(&["FLUSHALL"]).await;
    assert_eq!(topup.define("kept", Terms::token_bucket(3, "1/h")).await.unwrap(), Defined::New);
    assert!(topup.limit("kept").take(1).await.unwrap().is_allowed());
}

/// Clients and daemons read only the changed limits again, of many.
#[tokio::test]
async fn a_change_of_one_limit_has_no_other_read_again() {
    const LIMITS: u64 = 200;
    let fixture = Fixture::set(API).await;
    let (definer, taker) = (&fixture.topup, patient(fixture.redis.url()).await);
    let name = |i: u64| format!("tenant-{i}");
    for i in 0..LIMITS {
        definer.define(name(i), Terms::gcra(5, "1/h")).await.unwrap();
    }
    let take_all = async || {
        for i in 0..LIMITS {
            let _ = taker.limit(name(i)).take(1).await.unwrap();
        }
    };
    take_all().await;
    fixture.redis.reset_stats().await;
    for round in 0..10 {
        let name = name(round * 7);
        definer.define(&name, Terms::gcra(6 + round, "1/h")).await.unwrap();
        let knows = async || taker.limit(&name).peek().await.unwrap().capacity() == 6 + round;
        eventually(SOON, knows).await;
        take_all().await;
    }
    let read = fixture.redis.command_calls("hgetall").await;
    println!("{read} records read for 10 changes of {LIMITS} limits");
    assert!(read < 10 * LIMITS, "{read} records were read");
}
