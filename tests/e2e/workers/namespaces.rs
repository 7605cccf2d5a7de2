//! Namespaces: teams with equal names of limits share a server, and nothing in it.

use std::collections::BTreeMap;

use topup::{Client, Error};
use topup_tests::{Cli, Daemon, Redis, SOON, Signal, eventually};

use super::fixture::patient;

/// Begins of one name: "shop" of "shop2". The last one is the default.
const TEAMS: [(&str, u64); 3] = [("shop", 3), ("shop2", 5), ("topup", 7)];

/// The limits of a team. All have the same names, and capacities of their own.
pub(super) fn config(namespace: &str, capacity: u64) -> String {
    let mut text = format!("[redis]\nnamespace = \"{namespace}\"\n");
    for (name, more) in [
        ("api", ""),
        ("user", "keyed = true\nshards = 4\n"),
        ("lazy", "algorithm = \"lazy-token-bucket\"\nkeyed = true\nshards = 2\n"),
        ("trial", "compare_percent = 100\nmode = \"shadow\"\n"),
    ] {
        text += &format!("[limit.{name}]\ncapacity = {capacity}\nrate = \"1/h\"\n{more}");
    }
    text
}

fn within(url: &str, namespace: &str) -> String {
    format!("{url}?namespace={namespace}")
}

/// All keys that begin so, and what they hold. Heartbeats and generations change by themselves.
async fn content(redis: &Redis, begin: &str) -> BTreeMap<String, Vec<u8>> {
    let mut content = BTreeMap::new();
    for key in redis.ask::<Vec<String>>(&["KEYS", &format!("{begin}*")]).await {
        let is_alive = key.contains("}:daemon") || key.ends_with("}:generation");
        if let (false, Some(dump)) = (is_alive, redis.ask::<Option<Vec<u8>>>(&["DUMP", &key]).await) {
            content.insert(key, dump);
        }
    }
    content
}

/// Takes that a team was allowed, of all its limits, and those that were compared besides.
async fn counted(redis: &Redis, team: &str) -> [u64; 2] {
    let mut counted = [0; 2];
    for limit in ["api", "user", "lazy", "trial"] {
        let key = format!("{team}:{{{limit}:0}}:counts");
        let counts: [Option<u64>; 2] = redis.ask(&["HMGET", &key, "allowed", "both_allowed"]).await;
        counted = [0, 1].map(|i| counted[i] + counts[i].unwrap_or(0));
    }
    counted
}

async fn others(redis: &Redis) -> [BTreeMap<String, Vec<u8>>; 2] {
    [content(redis, "shop2:").await, content(redis, "topup:").await]
}

async fn ready(redis: &Redis, namespace: &str, capacity: u64) -> Daemon {
    let mut daemon = Daemon::spawn(&config(namespace, capacity), redis);
    daemon.wait_for_line("ready", SOON).await;
    daemon
}

/// Waits until a daemon has swept once: before it was ready, or after.
async fn swept(daemon: &Daemon) {
    let is_told = |line: &String| line.contains("removed 2 stray counters");
    eventually(SOON, async || daemon.lines().iter().any(is_told)).await;
}

#[tokio::test]
async fn a_change_a_removal_a_flush_and_a_sweep_reach_no_other_namespace() {
    let redis = Redis::start().await;
    // Two stray counters in each namespace. Only a sweep of that namespace removes them.
    for (namespace, _) in TEAMS {
        for key in ["{gone:0}:b:", "{user:0}:b:shop:{user:0}:b:late"] {
            redis.ask::<i64>(&["DECR", &format!("{namespace}:{key}")]).await;
        }
    }
    let shop = ready(&redis, "shop", 3).await;
    swept(&shop).await;
    assert_eq!(others(&redis).await.map(|keys| keys.len()), [2, 2], "swept by another's daemon");
    let others_alive = [ready(&redis, "shop2", 5).await, ready(&redis, "topup", 7).await];
    for mut daemon in others_alive {
        swept(&daemon).await;
        daemon.end(Signal::TERM, SOON).await;
    }

    // The same buckets of all teams, each as if it were alone. The builder and the URL name a namespace.
    let builder = Client::builder().deadline(SOON).namespace("shop2");
    let clients = [
        patient(&within(redis.url(), "shop")).await,
        builder.connect(&within(redis.url(), "shop")).await.unwrap(),
        patient(redis.url()).await,
    ];
    for (client, (namespace, capacity)) in clients.iter().zip(TEAMS) {
        // The key looks like a bucket of another team.
        let (api, user) = (client.limit("api"), client.limit("user").key("shop2:{user:0}:b:alice"));
        let (lazy, trial) = (client.limit("lazy").key("}:l:{"), client.limit("trial"));
        for bucket in [&api, &user, &lazy, &trial] {
            let left = bucket.take(1).await.unwrap();
            assert_eq!((left.remaining(), left.capacity()), (capacity - 1, capacity), "{namespace}");
        }
        let all = client.take_all([(api.clone(), 1), (user.clone(), 1)]).await.unwrap();
        assert!(all.denied_by().is_none());
        assert_eq!(
            (api.peek().await.unwrap().remaining(), user.refund(1).await.unwrap()),
            (capacity - 2, capacity - 1)
        );
        let throttled = client.throttle("alice", capacity, 1, 3_600, 1).await.unwrap();
        assert_eq!((throttled.limited, throttled.remaining), (false, capacity), "{namespace}");
    }
    let keys: Vec<String> = redis.ask(&["KEYS", "*"]).await;
    let is_ours = |key: &&String| TEAMS.iter().any(|(team, _)| key.starts_with(&format!("{team}:")));
    assert_eq!(keys.iter().find(|key| !is_ours(key)), None);
    // The counts are on their way for a moment, and may come in parts.
    for (team, _) in TEAMS {
        eventually(SOON, async || match counted(&redis, team).await {
            [6, 1] => Ok(()),
            other => Err(other),
        })
        .await;
    }
    let before = others(&redis).await;
    assert!(before.iter().all(|keys| keys.len() > 12), "{before:?}");

    // Other terms and another algorithm, then fewer shards and limits, then none.
    let changed = config("shop", 30).replace("lazy-token", "leaky").replace("1/h", "2/h");
    let few = "[redis]\nnamespace = \"shop\"\n[limit.user]\nkeyed = true\nshards = 1\ncapacity = 3\nrate = \"1/h\"\n";
    for (config, limits) in [(changed.as_str(), 5), (few, 1), ("[redis]\nnamespace = \"shop\"\n", 0)] {
        shop.reload(config);
        eventually(SOON, async || redis.ask::<u64>(&["HLEN", "shop:{shop}:limits"]).await == limits).await;
    }
    eventually(SOON, async || {
        let left: Vec<_> = content(&redis, "shop:").await.into_keys().collect();
        let shared = ["claims", "owners", "schema"].map(|key| format!("shop:{{shop}}:{key}"));
        let kept = [vec!["shop:throttle:{alice}".to_owned()], shared.to_vec()].concat();
        if left == kept { Ok(()) } else { Err(left) }
    })
    .await;
    assert_eq!(others(&redis).await, before, "after removals");

    // A loss of all keys of one namespace is repaired there alone.
    let generation = async || redis.ask::<u64>(&["GET", "shop:{shop}:generation"]).await;
    let removed = generation().await;
    shop.reload(&config("shop", 3));
    // The announcement ends the publication.
    eventually(SOON, async || generation().await > removed).await;
    let lost: Vec<String> = redis.ask(&["KEYS", "shop:*"]).await;
    let words: Vec<&str> = ["UNLINK"].into_iter().chain(lost.iter().map(String::as_str)).collect();
    redis.ask::<u64>(&words).await;
    // The heartbeat notices it, or the healing round, whichever comes first.
    let healed = ["limits", "generation"].map(|key| format!("shop:{{shop}}:{key}"));
    let exist = ["EXISTS", &healed[0], &healed[1]];
    eventually(SOON, async || redis.ask::<u64>(&exist).await == 2).await;
    eventually(SOON, async || clients[0].limit("api").take(1).await.is_ok_and(|took| took.remaining() < 3))
        .await;
    assert_eq!(others(&redis).await, before, "after a loss");
    for (client, (_, capacity)) in clients[1..].iter().zip(&TEAMS[1..]) {
        assert_eq!(client.limit("api").peek().await.unwrap().remaining(), capacity - 2);
    }
}

#[tokio::test]
async fn a_wrong_namespace_is_told_where_it_is_named() {
    let redis = Redis::start().await;
    let _daemon = ready(&redis, "shop", 3).await;
    // A client of another namespace, and who asks by hand.
    let elsewhere = patient(&within(redis.url(), "shop2")).await;
    let error = elsewhere.limit("api").take(1).await.unwrap_err();
    assert!(matches!(&error, Error::NothingPublished { namespace, .. } if namespace == "shop2"), "{error}");
    assert!(error.to_string().contains("in the namespace \"shop2\""), "{error}");
    for namespace in ["", "a b", "{shop}", "shop*", "a:b", &"n".repeat(33)] {
        let error = Client::builder().namespace(namespace).connect(redis.url()).await.map(drop).unwrap_err();
        assert!(matches!(&error, Error::InvalidNamespace(_)), "{error}");
    }
    for (parameter, problem) in [
        ("namspace=shop", "unknown parameter \"namspace\": behind ? may stand namespace, db"),
        ("namespace=shop*", "\"shop*\" is not a namespace"),
        ("namespace=a&namespace=a", "stands there twice"),
    ] {
        let url = format!("{}?{parameter}", redis.url());
        let error = Client::connect(&url).await.map(drop).unwrap_err();
        assert!(!error.is_transient() && error.to_string().contains(problem), "{error}");
        let told = Cli::new(&["status", "--redis", &url]).run().await;
        assert_eq!(told.code, Some(64));
        assert!(told.stderr.contains(problem), "{told:?}");
    }

    // A command line names a namespace by option, URL or config. The first one given, in this order, counts.
    let (in_shop, in_shop2) = (within(redis.url(), "shop"), within(redis.url(), "shop2"));
    let beside = format!("[redis]\nurl = \"{}\"\nnamespace = \"shop\"\n", redis.url());
    for (args, file) in [
        (&["--redis", redis.url(), "--namespace", "shop"][..], ""),
        (&["--redis", &in_shop2, "--namespace", "shop"], ""),
        (&["--redis", &in_shop], "[redis]\nnamespace = \"shop2\"\n"),
        (&["--redis", redis.url()], "[redis]\nnamespace = \"shop\"\n"),
        (&[], &beside),
    ] {
        let ask = async |word: &[&str]| {
            let args = [word, args].concat();
            Cli::new(&args).config(file).run().await
        };
        let told = ask(&["peek", "api"]).await;
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (Some(0), "allowed, 3 of 3 left\n"),
            "{args:?} {told:?}"
        );
        let told = ask(&["status"]).await;
        assert!(told.stdout.contains("\nnamespace shop\n"), "{args:?} {told:?}");
    }
    let told = Cli::new(&["take", "api", "--redis", &in_shop2]).run().await;
    assert_eq!(told.code, Some(2));
    assert!(told.stderr.contains("no limit api is published in the namespace shop2"), "{told:?}");
    let told = Cli::new(&["take", "api", "--redis", redis.url(), "--namespace", "a b"]).run().await;
    assert_eq!(told.code, Some(64));
    assert!(told.stderr.contains("\"a b\" is not a namespace"), "{told:?}");
}
