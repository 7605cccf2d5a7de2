//! A key whose plan changes again before anybody has taken by it keeps its tokens and its debt.

use std::time::{Duration, UNIX_EPOCH};

use topup_tests::{Cli, SOON, eventually};

use super::fixture::{Fixture, now, patient};

/// No token comes within the test.
const CONFIG: &str = r#"
[limit.user]
keyed = true
capacity = 10
rate = "1/h"
max_debt = 50
plan.silver = { capacity = 4, rate = "1/h" }
plan.gold = { capacity = 20, rate = "1/h" }
"#;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn tokens_and_debt_go_with_a_key_that_nobody_uses_over_all_changes() {
    let table = |word: &str| format!("{CONFIG}[limit.user.keys]\ntable = \"{word}\"\n");
    let mut fixture = Fixture::set(CONFIG).await;
    let key = |key: &str| fixture.topup.limit("user").key(key);
    for name in ["hand", "table", "ends", "tool", "drained"] {
        assert!(key(name).take(7).await.unwrap().is_allowed());
    }
    assert_eq!(key("debt").charge(17).await.unwrap().uncharged, 0);
    let ends = UNIX_EPOCH + Duration::from_micros(now(&fixture.redis).await + 2_000_000);
    let peek = key("ends");

    // No takes from here on.
    let assign = async |name: &'static str, plan: &str, until| {
        let topup = &fixture.topup;
        topup.assign("user", name, plan, until).await.unwrap();
    };
    let hands = ["hand", "debt", "tool", "drained"];
    for plan in ["gold", "exempt", "silver"] {
        for name in hands {
            assign(name, plan, None).await;
        }
        if plan == "gold" {
            assign("ends", "gold", Some(ends)).await;
        }
    }
    fixture.reload(&table("gold")).await;
    fixture.reload(&table("silver")).await;

    // All is in force, and tokens are where they would be if somebody had taken by each plan.
    let other = patient(fixture.redis.url()).await;
    let key = |key: &str| other.limit("user").key(key);
    for (name, capacity) in [("hand", 4), ("table", 4), ("ends", 10)] {
        let told = eventually(SOON, async || {
            let told = key(name).peek().await.unwrap();
            (told.capacity() == capacity).then_some(told)
        })
        .await;
        assert_eq!(told.remaining(), 3, "{name}");
    }
    assert_eq!(peek.peek().await.unwrap().remaining(), 3);
    let wait = key("debt").take(1).await.unwrap().retry_after().unwrap();
    assert!(wait > HOUR * 7 && wait <= HOUR * 8, "{wait:?}");
    let told = key("debt").charge(50).await.unwrap();
    assert_eq!((told.charged, told.uncharged), (43, 7), "max_debt holds for all debt");

    // The tool follows the same.
    let run = async |args: &str| {
        let ended = Cli::new(&args.split(' ').collect::<Vec<_>>()).redis(&fixture.redis).run().await;
        ended.stdout.trim_end().to_owned()
    };
    assert_eq!(run("peek user --key tool").await, "allowed, 3 of 4 left, plan silver");
    assert_eq!(run("drain user --key drained").await, "0 of 4 left, 3 before");
    assert_eq!(key("drained").peek().await.unwrap().remaining(), 0);
    assert!(run("explain user --key tool").await.contains("by hand  silver  <- decides"));
}
