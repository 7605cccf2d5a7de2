//! The most denied keys of a limit: keys that take too much are named, with the right count.

use serde_json::{Value, json};
use topup_tests::{Cli, SOON, eventually};

use super::fixture::{Fixture, patient};

/// Denied takes of the customer that takes most, by each worker.
const EACH: u64 = 1_000;
/// Customers of whom a take or two are denied.
const OTHERS: u64 = 1_000;
/// As `printf whale | sha1sum` begins.
const HASH_OF_WHALE: &str = "1769e230f7885e91";

#[tokio::test(flavor = "multi_thread")]
async fn one_customer_among_a_thousand_is_named_with_the_right_count() {
    let config = "[limit.user]\nkeyed = true\ncapacity = 1\nrate = \"1/d\"\ntop_keys = 5\n\
                  [limit.quiet]\nkeyed = true\ncapacity = 1\nrate = \"1/d\"\n\
                  [limit.secret]\nkeyed = true\ncapacity = 1\nrate = \"1/d\"\ntop_keys = 5\nhash_top_keys = true\n";
    let fixture = Fixture::set(config).await;
    let workers = (0..3_u64).map(|worker| {
        let url = fixture.redis.url().to_owned();
        tokio::spawn(async move {
            let topup = patient(&url).await;
            let [user, quiet, secret] = ["user", "quiet", "secret"].map(|limit| topup.limit(limit));
            let denied = async |key: &str| u64::from(!user.key(key).take(1).await.unwrap().is_allowed());
            let mut most = 0;
            for i in 0..EACH {
                most += denied("whale").await;
                // Each other customer is asked by each worker once, in an order of its own.
                denied(&format!("customer-{}", (i * 7 + worker * 331) % OTHERS)).await;
                if i < 3 {
                    let _ = quiet.key("whale").take(1).await.unwrap();
                    let _ = secret.key("whale").take(1).await.unwrap();
                }
            }
            topup.put_back().await;
            most
        })
    });
    let mut most = 0;
    for worker in workers.collect::<Vec<_>>() {
        most += worker.await.unwrap();
    }
    assert_eq!(most, 3 * EACH - 1);
    let limits = eventually(SOON, async || {
        let ended = Cli::new(&["status", "--json"]).redis(&fixture.redis).run().await;
        let status: Value = serde_json::from_str(&ended.stdout).unwrap();
        let counts = &status["limits"][2]["counts"];
        let all = counts["denied"].as_u64().unwrap_or(0);
        if all == most + 2 * OTHERS { Ok(status["limits"].clone()) } else { Err(counts.clone()) }
    })
    .await;
    assert!(limits[0]["top_denied"].is_null(), "nothing is kept of a limit without top_keys: {}", limits[0]);
    let top = &limits[2]["top_denied"];
    let (keys, missing) = (top["keys"].as_array().unwrap(), top["missing"].as_u64().unwrap());
    let known = keys[0]["denied"].as_u64().unwrap();
    assert_eq!((keys[0]["key"].as_str(), keys.len()), (Some("whale"), 5));
    assert!(known <= most && most <= known + missing, "{known} of {most}, {missing} may be missing");
    // At each hand-over, the keys that are not told have some takes at most.
    assert!(missing < most / 2, "{missing}");
    let hash = "sha1:".to_owned() + HASH_OF_WHALE;
    assert_eq!(
        limits[1]["top_denied"],
        json!({"hashed": true, "keys": [{"key": hash, "denied": 8}], "missing": 0})
    );
    for slice in fixture.redis.ask::<Vec<String>>(&["KEYS", "*:top?"]).await {
        let of_secret = slice.starts_with("topup:{secret:0}:top");
        assert!(of_secret || slice.starts_with("topup:{user:0}:top"), "{slice}");
        assert!(fixture.redis.ask::<u64>(&["ZCARD", &slice]).await <= 21);
        let whale = fixture.redis.ask::<Option<f64>>(&["ZSCORE", &slice, "whale"]).await;
        assert!(!of_secret || whale.is_none(), "a key that is to be hashed is kept");
    }
    let ended = Cli::new(&["status"]).redis(&fixture.redis).run().await;
    let line = |text: &str| ended.stdout.lines().any(|line| line.contains(text));
    assert!(line(" denied  whale") && line(&format!("  8 denied  {hash}")), "{}", ended.stdout);
}
