//! `--json`: the shapes that scripts rely on.

use serde_json::{Value, json};
use topup_tests::{Cli, Redis};

use super::LIMITS;
use crate::daemon::ready;

async fn told(redis: &Redis, args: &[&str]) -> Value {
    let told = Cli::new(args).arg("--json").redis(redis).run().await;
    assert_eq!(told.stderr, "", "{args:?}");
    serde_json::from_str(&told.stdout).unwrap()
}

#[tokio::test]
async fn a_decision_has_one_shape() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let allowed = |remaining: u64| json!({"allowed": true, "would_deny": false, "mode": "enforce", "plan": null, "remaining": remaining, "capacity": 3, "retry_after_ms": null});
    assert_eq!(told(&redis, &["peek", "api"]).await, allowed(3));
    assert_eq!(told(&redis, &["take", "api", "--count", "3"]).await, allowed(0));
    for word in ["take", "peek"] {
        let mut denied = told(&redis, &[word, "api"]).await;
        let wait = denied["retry_after_ms"].take().as_f64().unwrap();
        assert!((3_500_000.0..=3_600_000.0).contains(&wait), "{wait}");
        assert_eq!(
            denied,
            json!({"allowed": false, "would_deny": true, "mode": "enforce", "plan": null, "remaining": 0, "capacity": 3, "retry_after_ms": null})
        );
    }
    assert_eq!(told(&redis, &["reset", "api"]).await, allowed(3));
}

#[tokio::test]
async fn status_has_one_shape() {
    let redis = Redis::start().await;
    let mut nothing = told(&redis, &["status"]).await;
    assert!(nothing["latency_ms"].take().is_f64());
    let problem = json!({
        "cause": "unpublished", "what": "nothing is published",
        "action": "start topupd, or see its log: it publishes the limits of its config",
    });
    assert_eq!(
        nothing,
        json!({
            "redis": redis.url(), "latency_ms": null, "health": "unpublished", "problems": [problem],
            "namespace": "topup", "newer_schema": null, "generation": null, "daemons": [], "limits": [], "limits_not_shown": 0,
            "conflicts": [], "pauses": [], "sources": []
        })
    );
    let daemon = ready(LIMITS, &redis).await;
    told(&redis, &["take", "api"]).await;
    told(&redis, &["take", "user", "--key", "alice"]).await;
    told(&redis, &["take", "user", "--key", "bob"]).await;
    told(&redis, &["take", "lazy"]).await;
    let mut status = told(&redis, &["status"]).await;
    for row in status["limits"].as_array_mut().unwrap() {
        let takes = if row["name"] == "user" { 2 } else { 1 };
        assert_eq!((&row["counts"]["allowed"], &row["counts"]["denied"]), (&json!(takes), &json!(0)));
        // Over the last ten seconds, or the ten before.
        let pace = row["allowed_per_second"].take().as_f64().unwrap();
        assert!((0.0..=0.2).contains(&pace) && row["denied_per_second"] == 0.0, "{row}");
        row["counts"].take();
    }
    let owner = daemon.config().display().to_string();
    let row = |name: &str, algorithm: &str, keyed: bool, tokens: Option<u64>, active: Option<u64>| {
        json!({
            "name": name, "algorithm": algorithm, "keyed": keyed, "capacity": 3, "rate": "1/h", "tokens": tokens,
            "active": active, "orphaned": false, "owners": [{ "config": owner, "alive": true, "since": null }], "mode": "enforce", "enforce_percent": 100, "candidate": null, "defined_until": null, "counts": null, "tokens_per_second": 1.0 / 3600.0, "allowed_per_second": null, "denied_per_second": 0.0, "top_denied": null, "held": null, "waiting": null, "open_holds": null, "parts": null,
        })
    };
    let rows = [
        // Buckets at rest are none of those that daemons refill.
        row("api", "token-bucket", false, Some(2), Some(0)),
        row("lazy", "lazy-token-bucket", false, Some(2), None),
        row("user", "token-bucket", true, None, Some(0)),
    ];
    assert_eq!(status["limits"], json!(rows));
    let generation: u64 = redis.ask(&["GET", "topup:{topup}:generation"]).await;
    assert_eq!(status["generation"], json!(generation));
    let [alive] = status["daemons"].as_array().unwrap().as_slice() else { panic!("{status}") };
    // A host, a process, and a random token.
    let id: Vec<&str> = alive["id"].as_str().unwrap().split(':').collect();
    assert!(
        matches!(id[..], [host, pid, token] if !host.is_empty() && pid == daemon.pid().to_string() && token.len() == 8),
        "{alive}"
    );
    assert_eq!((alive["config"].as_str(), &status["conflicts"]), (Some(&*owner), &json!([])));
    assert_eq!(alive["config_hash"].as_str().map(str::len), Some(16));
    assert_eq!((&status["health"], &status["problems"]), (&json!("healthy"), &json!([])));
    assert_eq!(alive["version"], env!("CARGO_PKG_VERSION"));
    assert!(alive["lag_ms"].is_f64() && alive["credited"].is_u64(), "{alive}");
}

#[tokio::test]
async fn a_calendar_quota_has_no_rate() {
    let redis = Redis::start().await;
    let _daemon = ready("[limit.export]\ncapacity = 3\nrefill = { cron = \"0 0 0 1 * *\" }\n", &redis).await;
    assert_eq!(told(&redis, &["status"]).await["limits"][0]["rate"], Value::Null);
    let text = Cli::new(&["status"]).redis(&redis).run().await.stdout;
    assert!(text.contains("1 daemon alive") && text.contains("calendar"), "{text}");
}

#[tokio::test]
async fn commands_that_answer_in_lines_answer_in_json_too() {
    let redis = Redis::start().await;
    let daemon = ready(LIMITS, &redis).await;
    let throttled =
        json!({"limited": false, "limit": 10, "remaining": 9, "retry_after_s": null, "reset_after_s": 0});
    assert_eq!(told(&redis, &["throttle", "alice", "9", "1000000", "1"]).await, throttled);
    let users = told(&redis, &["acl"]).await;
    assert_eq!(users["users"][0]["user"], "topup-worker");
    assert!(users["users"][2]["command"].as_str().unwrap().starts_with("ACL SETUSER topup-viewer reset on "));
    drop(daemon);
    let removed = told(&redis, &["remove", "lazy", "--force"]).await;
    assert_eq!((&removed["limit"], &removed["removed"]), (&json!("lazy"), &json!(true)));
}
