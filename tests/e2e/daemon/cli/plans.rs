//! Commands that name a key act on the bucket of the key's plan, as workers do.

use serde_json::{Value, json};
use topup_tests::{Cli, Ended, Redis, SOON, eventually};

use crate::daemon::ready;

const CONFIG: &str = r#"
[limit.user]
keyed = true
capacity = 10
rate = "1/h"
plan.gold = { capacity = 100, rate = "1/h" }
keys = { acme = "gold", "10.*" = "exempt", evil = "deny" }

[limit.shared]
keyed = true
capacity = 10
rate = "1/h"
share = "borrow"
parts = { acme = 3, "*" = 2 }
"#;

async fn run(redis: &Redis, args: &str) -> Ended {
    Cli::new(&args.split(' ').collect::<Vec<_>>()).redis(redis).run().await
}

async fn told(redis: &Redis, args: &str, code: i32) -> String {
    let told = run(redis, args).await;
    assert_eq!(told.code, Some(code), "{args}: {told:?}");
    format!("{}{}", told.stdout, told.stderr).trim_end().to_owned()
}

#[tokio::test]
async fn a_command_acts_on_the_bucket_of_the_keys_plan() {
    let redis = Redis::start().await;
    let _daemon = ready(CONFIG, &redis).await;

    assert_eq!(told(&redis, "take user --key zoe", 0).await, "allowed, 9 of 10 left");
    assert_eq!(
        told(&redis, "take user --key acme --count 40", 0).await,
        "allowed, 60 of 100 left, plan gold"
    );
    assert_eq!(told(&redis, "peek user --key acme", 0).await, "allowed, 60 of 100 left, plan gold");
    assert_eq!(told(&redis, "set user --key acme --tokens 50", 0).await, "50 of 100 left, 60 before");
    assert_eq!(told(&redis, "drain user --key acme", 0).await, "0 of 100 left, 50 before");
    let denied = told(&redis, "take user --key acme", 1).await;
    assert!(denied.starts_with("denied, 0 of 100 left, plan gold, retry after 59m"), "{denied}");
    assert_eq!(told(&redis, "reset user --key acme", 0).await, "allowed, 100 of 100 left, plan gold");

    assert_eq!(told(&redis, "take user --key 10.1.2.3 --count 9", 0).await, "allowed, the key is exempt");
    assert_eq!(
        told(&redis, "take user --key evil --wait 1h", 1).await,
        "denied, the key is on the deny list"
    );
    let json: Value = serde_json::from_str(&told(&redis, "take user --key evil --json", 1).await).unwrap();
    let wanted = json!({
        "allowed": false, "would_deny": true, "mode": "enforce", "plan": "deny", "remaining": 0,
        "capacity": 10, "retry_after_ms": null,
    });
    assert_eq!(json, wanted);
    for command in ["reset user --key evil", "drain user --key evil", "set user --key 10.1 --tokens 3"] {
        let refused = told(&redis, command, 64).await;
        assert!(refused.contains("in limit user, and has no bucket"), "{command}: {refused}");
    }
    // No token was taken from buckets of the limit's own terms.
    let members = ["acme", "evil", "10.1.2.3"];
    for key in redis.ask::<Vec<String>>(&["KEYS", "*"]).await {
        let is_own =
            key.contains("{user:") && members.iter().any(|member| key.ends_with(&format!(":{member}")));
        assert!(!is_own, "{key}");
    }
}

#[tokio::test]
async fn tokens_follow_a_key_whose_plan_changes_by_hand() {
    let redis = Redis::start().await;
    let _daemon = ready(CONFIG, &redis).await;

    assert_eq!(told(&redis, "take user --key zoe --count 7", 0).await, "allowed, 3 of 10 left");
    told(&redis, "assign user zoe gold", 0).await;
    eventually(SOON, async || {
        told(&redis, "peek user --key zoe", 0).await == "allowed, 3 of 100 left, plan gold"
    })
    .await;
    assert_eq!(told(&redis, "take user --key zoe --count 3", 0).await, "allowed, 0 of 100 left, plan gold");
    told(&redis, "unassign user zoe", 0).await;
    eventually(SOON, async || {
        told(&redis, "peek user --key zoe", 0).await.starts_with("denied, 0 of 10 left, retry after")
    })
    .await;
}

#[tokio::test]
async fn a_command_takes_from_the_part_of_its_key() {
    let redis = Redis::start().await;
    let _daemon = ready(CONFIG, &redis).await;
    assert_eq!(told(&redis, "take shared --key acme --count 4", 0).await, "allowed, 2 of 6 left");
    assert_eq!(told(&redis, "peek shared --key other", 0).await, "allowed, 4 of 4 left");
    let denied = told(&redis, "take shared --key acme --count 3", 1).await;
    assert!(denied.starts_with("denied, 2 of 6 left"), "{denied}");
    assert_eq!(
        told(&redis, "take shared --key other --count 5", 64).await,
        "topupd: the bucket of limit shared holds at most 4 tokens: take no more than that"
    );
    let explained = told(&redis, "explain shared --key other", 0).await;
    let part = "4. own      part \"*\", sure of 2 of 5 shares, 4 tokens; capacity 10, rate 1/h  <- decides";
    assert!(explained.contains(part), "{explained}");
}
