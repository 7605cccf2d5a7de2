//! `topupd limits`, `set`, `drain`, `pause` and `resume`, with a live daemon and with a dead one.

use serde_json::{Value, json};
use topup_tests::{Cli, Ended, Redis, SOON, Signal};

use crate::daemon::ready;

const CONFIG: &str = r#"
[limit]
api = { capacity = 10, rate = "1/h" }
user = { keyed = true, capacity = 10, rate = "1/h", shards = 4 }
lazy = { algorithm = "lazy-token-bucket", capacity = 10, rate = "1/h" }
leaky = { algorithm = "leaky-bucket", capacity = 10, rate = "1/h" }
window = { algorithm = "sliding-window", limit = 10, window = "1h" }
fixed = { algorithm = "fixed-window", limit = 10, window = "1d" }
counter = { algorithm = "sliding-counter", limit = 10, window = "1d" }
gcra = { algorithm = "gcra", capacity = 10, rate = "1/h" }
off = { capacity = 10, rate = "1/h", mode = "off" }
"#;

async fn run(redis: &Redis, args: &str) -> Ended {
    Cli::new(&args.split(' ').collect::<Vec<_>>()).redis(redis).run().await
}

async fn done(redis: &Redis, args: &str) -> String {
    let told = run(redis, args).await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{args}: {told:?}");
    told.stdout.trim_end().to_owned()
}

/// The error of a command, on standard output.
async fn error(redis: &Redis, args: &str, code: i32, kind: &str) -> String {
    let told = run(redis, &format!("{args} --json")).await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(code), ""), "{args}: {told:?}");
    let error = serde_json::from_str::<Value>(&told.stdout).unwrap()["error"].clone();
    assert_eq!((&error["kind"], &error["exit_code"]), (&json!(kind), &json!(code)), "{args}");
    let message = error["message"].as_str().unwrap().to_owned();
    // As text, the same goes to standard error.
    let text = run(redis, args).await;
    assert_eq!((text.code, text.stdout.as_str()), (Some(code), ""), "{args}");
    assert!(text.stderr.contains(&message), "{args}: {message:?} in {text:?}");
    message
}

#[tokio::test]
async fn buckets_are_set_and_drained_and_limits_paused_whether_a_daemon_lives_or_not() {
    let redis = Redis::start().await;
    let mut daemon = ready(CONFIG, &redis).await;
    for alive in [true, false] {
        if !alive {
            daemon.end(Signal::KILL, SOON).await;
        }
        let table = done(&redis, "limits").await;
        let row = |name: &str| table.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        let words = |name: &str| row(name).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(table.lines().count(), 10, "{table}");
        assert_eq!(words("user"), "user token-bucket one a key enforce 10 1/h -");
        assert!(words("off").starts_with("off token-bucket one off 10 1/h"), "{table}");
        let rows: Value = serde_json::from_str(&done(&redis, "limits --json").await).unwrap();
        assert_eq!(rows["limits"].as_array().map(Vec::len), Some(9));
        assert_eq!((&rows["limits"][0]["name"], &rows["limits"][0]["capacity"]), (&json!("api"), &json!(10)));

        for limit in ["api", "user --key alice", "lazy", "leaky", "window", "fixed", "counter", "gcra"] {
            done(&redis, &format!("reset {limit}")).await;
            let peek = async || done(&redis, &format!("peek {limit}")).await;
            assert_eq!(done(&redis, &format!("set {limit} --tokens 3")).await, "3 of 10 left, 10 before");
            assert!(peek().await.ends_with(", 3 of 10 left"), "{limit}: {}", peek().await);
            assert_eq!(done(&redis, &format!("set {limit} --tokens 7")).await, "7 of 10 left, 3 before");
            assert!(peek().await.ends_with(", 7 of 10 left"), "{limit}");
            assert_eq!(done(&redis, &format!("set {limit} --tokens 7")).await, "7 of 10 left, 7 before");
            assert_eq!(done(&redis, &format!("drain {limit}")).await, "0 of 10 left, 7 before");
            assert!(peek().await.starts_with("denied, 0 of 10 left"), "{limit}");
            assert_eq!(done(&redis, &format!("set {limit} --tokens 10")).await, "10 of 10 left, 0 before");

            assert!(
                done(&redis, &format!("pause {limit} --for 1h")).await.ends_with(" paused for 1h"),
                "{limit}"
            );
            let again = done(&redis, &format!("pause {limit} --for 30s")).await;
            assert!(
                again.contains("is paused for 1h already") || again.contains("is paused for 59m"),
                "{again}"
            );
            let denied = run(&redis, &format!("take {limit}")).await;
            assert_eq!(denied.code, Some(1), "{denied:?}");
            assert!(denied.stdout.starts_with("denied, 10 of 10 left, retry after "), "{denied:?}");
            assert!(peek().await.starts_with("denied, 10 of 10 left"), "{limit}");
            assert!(run(&redis, "status").await.stdout.contains(": paused until "));
            assert!(done(&redis, &format!("resume {limit}")).await.ends_with(" goes on"));
            assert!(done(&redis, &format!("resume {limit}")).await.ends_with(" was not paused"));
            assert_eq!(done(&redis, &format!("take {limit}")).await, "allowed, 9 of 10 left");
        }
        let told: Value = serde_json::from_str(&done(&redis, "set api --tokens 4 --json").await).unwrap();
        assert_eq!(told, json!({"limit": "api", "key": null, "before": 9, "remaining": 4, "capacity": 10}));
        let told: Value = serde_json::from_str(&done(&redis, "pause user --for 9d --json").await).unwrap();
        let day = 86_400_000.0;
        assert_eq!(told, json!({"limit": "user", "key": null, "paused_ms": day, "changed": true}));
        // A take that waits, waits for the end of the pause.
        done(&redis, "pause api --for 700ms").await;
        assert_eq!(done(&redis, "take api --wait 30s").await, "allowed, 3 of 10 left");
        done(&redis, "pause user --key bob --for 1h").await;
        assert_eq!(done(&redis, "resume user").await, "user, all keys, goes on");
        assert_eq!(run(&redis, "take user --key bob").await.code, Some(1));
        done(&redis, "resume user --all").await;
        assert_eq!(redis.ask::<u64>(&["EXISTS", "topup:{topup}:pauses"]).await, 0);
        done(&redis, "reset user --key bob").await;
    }

    // Wrong calls name what is meant, and leave no key.
    let keys = redis.dbsize().await;
    for call in [
        "take usr",
        "peek usr",
        "reset usr",
        "set usr --tokens 1",
        "drain usr",
        "pause usr --for 1s",
        "resume usr",
    ] {
        let message = error(&redis, call, 2, "undecided").await;
        assert!(
            message.starts_with("no limit usr is published: did you mean user? Published are api, "),
            "{message}"
        );
    }
    assert!(run(&redis, "remove usr").await.stderr.contains("did you mean user?"));
    for (call, text) in [
        ("set api --tokens 11", "holds at most 10 tokens"),
        ("set off --tokens 1", "limit off is off"),
        ("set user --tokens 1", "name a key with --key"),
        ("pause api --key x --for 1s", "leave --key out"),
        ("pause api --for 0s", "a pause takes time"),
        ("pause a:b --for 1s", "a:b"),
    ] {
        let message = error(&redis, call, 64, "usage").await;
        assert!(message.contains(text), "{call}: {message}");
    }
    for call in ["pause api", "pause api --for soon", "set api", "resume user --all --key x", "nonsense"] {
        let told = run(&redis, &format!("{call} --json")).await;
        let error: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"));
        assert_eq!((told.code, &error["error"]["kind"]), (Some(64), &json!("usage")), "{call}");
    }
    assert_eq!(redis.dbsize().await, keys);
    let away = Cli::new(&["limits", "--json", "--redis", "redis://127.0.0.1:1"]).run().await;
    assert_eq!(away.code, Some(2));
    assert!(away.stdout.contains("\"kind\":\"undecided\"") && away.stderr.is_empty(), "{away:?}");
}

#[tokio::test]
async fn a_file_is_checked_by_its_name_alone_and_problems_are_told_in_json() {
    let right = "[limit.api]\ncapacity = 1\nrate = \"1/s\"\n";
    let told = Cli::new(&["check", "new.toml"]).file("new.toml", right).run().await;
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "new.toml: 1 limit, no errors\n"), "{told:?}");
    let told = Cli::new(&["check", "new.toml", "--json"]).file("new.toml", right).run().await;
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told, json!({"file": "new.toml", "limits": 1, "warnings": []}));
    let wrong = "[limit.api]\ncapacity = 0\nrate = \"fast\"\n";
    let told = Cli::new(&["check", "new.toml", "--json"]).file("new.toml", wrong).run().await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(78), ""));
    let error = serde_json::from_str::<Value>(&told.stdout).unwrap()["error"].clone();
    assert_eq!(error["problems"].as_array().map(Vec::len), Some(2), "{error}");
    assert!(error["message"].as_str().unwrap().contains("new.toml:2"), "{error}");
    let both = Cli::new(&["check", "a.toml", "--config", "b.toml"]).run().await;
    assert_eq!(both.code, Some(64));
}
