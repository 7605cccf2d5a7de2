//! `topupd plan`: what a reload would change, told before it is made.

use serde_json::Value;
use topup_tests::{Cli, Ended, Redis, SOON, Signal, eventually};

use super::{bucket::Bucket, ready, reload};

const BEFORE: &str = "[limit.api]\ncapacity = 100\nrate = \"50/s\"\n[limit.sms]\ncapacity = 1\nrate = \"1/60s\"\n\
                      [limit.mail]\ncapacity = 5\nrate = \"1/s\"\n";
const AFTER: &str = "[limit.api]\ncapacity = 100\nrate = \"200/s\"\n[limit.mail]\ncapacity = 5\nrate = \"1/s\"\n\
                     [limit.new]\nkeyed = true\ncapacity = 10\nrate = \"1/s\"\n";

const DONE: Option<i32> = Some(0);
const UNDECIDED: Option<i32> = Some(2);
const CHANGES: Option<i32> = Some(6);
const USAGE: Option<i32> = Some(64);
const CONFIG: Option<i32> = Some(78);

async fn plan(redis: &Redis, config: &str, more: &[&str]) -> Ended {
    Cli::new(&[&["plan"], more].concat()).redis(redis).config(config).run().await
}

async fn json(redis: &Redis, config: &str, more: &[&str]) -> Value {
    let told = plan(redis, config, &[&["--json"], more].concat()).await;
    serde_json::from_str(&told.stdout).expect(&told.stderr)
}

#[tokio::test]
async fn it_tells_in_words_what_the_reload_then_does() {
    let redis = Redis::start().await;
    let mut daemon = ready(BEFORE, &redis).await;
    // A bucket in use, which fills in a second and a half.
    assert!(Bucket::of(&redis, "api").take(90).await.counting);
    let told = plan(&redis, AFTER, &[]).await;
    assert_eq!((told.code, told.stderr.as_str()), (CHANGES, ""), "{told:?}");
    let lines: Vec<&str> = told.stdout.lines().collect();
    let of_daemon = format!("config.toml as config {} on ", daemon.config().display());
    assert!(lines[0].starts_with(&of_daemon), "{told:?}");
    assert_eq!(lines[1], "limit api: rate 50/s -> 200/s");
    assert!(lines[2].starts_with("  buckets keep their tokens; "), "{told:?}");
    let rest = [
        "  in force 750 ms after the reload; until then the terms before apply",
        "limit new: new, capacity 10, rate 1/s",
        "limit sms: removed",
        "  buckets go; 0 are active",
        "unchanged: 1 limit",
    ];
    assert_eq!(lines[3..], rest, "{told:?}");

    let found = json(&redis, AFTER, &[]).await;
    assert_eq!((&found["unchanged"], &found["alive"]), (&1.into(), &1.into()), "{found}");
    let api = &found["changes"][0];
    assert_eq!((&api["limit"], &api["effect"]), (&"api".into(), &"altered".into()), "{found}");
    assert_eq!(api["differences"][0]["to"], "200/s");
    assert_eq!(api["in_force_after_ms"], 750);

    reload(&mut daemon, AFTER).await;
    eventually(SOON, async || plan(&redis, AFTER, &[]).await.code == DONE).await;
    let told = plan(&redis, AFTER, &[]).await;
    assert!(told.stdout.ends_with("a reload changes no limit; unchanged: 3 limits\n"), "{told:?}");
}

#[tokio::test]
async fn a_broken_file_and_a_redis_that_is_away_have_exit_codes_of_their_own() {
    let mut redis = Redis::tcp().await;
    let told = plan(&redis, "[limit.api]\ncapacity = 0\n", &[]).await;
    assert_eq!((told.code, told.stdout.as_str()), (CONFIG, ""), "{told:?}");
    assert!(told.stderr.contains("\nconfig.toml:2: limit.api.capacity"), "{told:?}");
    let told = plan(&redis, "[limit.api]\ncapacity = 0\nrate = \"1/s\"\n", &["--json"]).await;
    let found: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((told.code, &found["error"]["problems"][0]["line"]), (CONFIG, &2.into()), "{told:?}");
    assert_eq!(plan(&redis, AFTER, &["--no-such-option"]).await.code, USAGE);
    redis.server.kill().unwrap();
    let told = plan(&redis, AFTER, &[]).await;
    assert_eq!(told.code, UNDECIDED, "{told:?}");
    assert!(told.stdout.contains("3 limits, no errors; what is published cannot be told: Redis"), "{told:?}");
}

#[tokio::test]
async fn refusals_take_overs_and_restarts_are_told() {
    let redis = Redis::start().await;
    let shop = format!("name = \"shop\"\n{BEFORE}");
    let mut daemon = ready(&shop, &redis).await;
    // Another config, which may not have the limit.
    let other = AFTER.replace("new", "other");
    let told = plan(&redis, &format!("name = \"second\"\n{other}"), &[]).await;
    assert_eq!(told.code, CHANGES, "{told:?}");
    for text in
        ["no daemon of this config is alive", "limit api refused: config shop (daemon ", "limit mail: shared"]
    {
        assert!(told.stdout.contains(text), "{text}: {told:?}");
    }
    // The same file in place of that config: its name would change.
    let found = json(&redis, &format!("name = \"second\"\n{other}"), &["--as", "shop"]).await;
    assert_eq!(found["refused"], Value::Array(Vec::new()), "{found}");
    assert!(
        found["restart"][0].as_str().unwrap().starts_with("name has changed: that takes a restart"),
        "{found}"
    );
    // No daemon of the owner is alive: a person has to decide.
    daemon.end(Signal::TERM, SOON).await;
    let found = json(&redis, &format!("name = \"second\"\n{other}"), &[]).await;
    let refused = found["refused"][0].as_str().unwrap();
    assert!(refused.contains("no daemon of it") && refused.contains("--take-over api"), "{found}");
}

/// The file on disk tells what the daemon is asked for, whether Redis does or not.
#[tokio::test]
async fn the_file_of_the_daemon_is_compared_with() {
    let mut redis = Redis::tcp().await;
    let daemon =
        ready(&format!("[admin]\nlisten = \"unix:/tmp/topup-none/none.sock\"\n{BEFORE}"), &redis).await;
    let found = json(&redis, AFTER, &[]).await;
    assert_eq!(found["restart"][0], "[admin] has changed: that takes a restart", "{found}");
    redis.server.kill().unwrap();
    let path = daemon.config();
    let told = plan(&redis, AFTER, &["--as", &path.to_string_lossy()]).await;
    assert_eq!(told.code, UNDECIDED);
    for text in ["  limit sms: removed", "  limit api: rate 50/s -> 200/s", "[admin] has changed"] {
        assert!(told.stdout.contains(text), "{text}: {told:?}");
    }
}

#[tokio::test]
async fn changed_parts_sources_and_penalties_are_told_in_words() {
    const GATEWAY: &str = "[limit.gateway]\nkeyed = true\nshare = \"borrow\"\ncapacity = 60\nrate = \"6/s\"\n\
                           parts = { acme = 3, old = 1, \"*\" = 2 }\n";
    const USER: &str = "[limit.user]\nkeyed = true\ncapacity = 10\nrate = \"1/s\"\nplan.gold.capacity = 20\n";
    let (redis, folder) = (Redis::start().await, tempfile::tempdir().unwrap());
    let file = |name: &str, rows: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, rows).unwrap();
        path.display().to_string()
    };
    let (one, other) = (file("one.csv", "a,gold\nb,deny\nc,gold\n"), file("other.csv", "a,gold\n"));
    let with_source = |file: &str, every: &str| {
        format!("{GATEWAY}{USER}[limit.user.source]\nfile = {file:?}\nevery = \"{every}\"\n")
    };
    let before = with_source(&one, "1s");
    let mut daemon = ready(&before, &redis).await;
    let read =
        async || json(&redis, &format!("{GATEWAY}{USER}"), &[]).await["changes"][0]["source"]["rows"] == 3;
    eventually(SOON, read).await;
    assert_eq!(plan(&redis, &before, &[]).await.code, DONE);
    let text = |file: &str, every: &str| format!("{file} every {every}, 50 % dropped at most");
    let source = [
        (
            with_source(&one, "2s"),
            format!("  source {} -> {}; its 3 rows stay assigned", text(&one, "1s"), text(&one, "2s")),
        ),
        (
            with_source(&other, "1s"),
            format!(
                "  source {} -> {}; once it is read, its rows replace the 3 rows of the one before",
                text(&one, "1s"),
                text(&other, "1s")
            ),
        ),
        (
            format!("{GATEWAY}{USER}"),
            format!("  source {} given up; the assignments of its 3 rows are taken back", text(&one, "1s")),
        ),
    ];
    for (config, line) in source {
        let told = plan(&redis, &config, &[]).await;
        assert!(
            told.stdout.contains(&format!("limit user: other assignments\n{line}\nunchanged: 1 limit\n")),
            "{told:?}"
        );
    }
    let new = format!(
        "{before}[limit.new]\nkeyed = true\ncapacity = 1\nrate = \"1/s\"\n[limit.new.source]\nfile = {other:?}\n"
    );
    let told = plan(&redis, &new, &[]).await;
    let line = format!("  source {}; its rows are assigned once it is read", text(&other, "10s"));
    assert!(told.stdout.contains(&format!("limit new: new, capacity 1, rate 1/s\n{line}\n")), "{told:?}");

    let told = plan(&redis, &before.replace("acme = 3, old = 1", "acme = 1, new = 1"), &[]).await;
    let lines = "limit gateway: other parts\n\
                 \x20 part \"acme\": sure of 3 of 6 shares, 30 tokens -> 1 of 4 shares, 15 tokens\n\
                 \x20 part \"old\": removed, was sure of 1 of 6 shares, 10 tokens; the other parts get its tokens\n\
                 \x20 part \"*\": sure of 2 of 6 shares, 20 tokens -> 2 of 4 shares, 30 tokens\n\
                 \x20 part \"new\": new, sure of 1 of 4 shares, 15 tokens\n\
                 \x20 buckets keep their tokens, up to the new parts; new parts begin empty\n";
    assert!(told.stdout.contains(lines), "{told:?}");
    // Twice the weight of all parts changes nothing.
    let told =
        json(&redis, &before.replace("acme = 3, old = 1, \"*\" = 2", "acme = 6, old = 2, \"*\" = 4"), &[])
            .await;
    assert_eq!(told["changes"][0]["parts"], serde_json::json!([]), "{told}");
    // Keys that no record of terms tells.
    for (more, words) in [
        ("penalty = { after = 3, within = \"1min\", block = \"1min\" }\n", "penalty none -> after 3 in 60s"),
        ("max_debt = 5\n", "max_debt 0 -> 5"),
        ("on_abandon = \"refund\"\n", "on_abandon charge after 600s -> refund after 600s"),
        ("top_keys = 7\n", "top_keys 0 -> 7"),
        ("keys.acme = \"gold\"\n", "keys none -> 1 assigned"),
        ("plan.free.capacity = 5\n", "plan gold -> free gold"),
    ] {
        let told = plan(&redis, &before.replace(USER, &format!("{USER}{more}")), &[]).await;
        assert!(told.stdout.contains(&format!("limit user: {words}")), "{more}: {told:?}");
    }

    // The reload does what the plan says.
    let after = with_source(&other, "1s");
    reload(&mut daemon, &after).await;
    eventually(SOON, async || plan(&redis, &after, &[]).await.code == DONE).await;
    let followed = async || {
        let told = json(&redis, &before, &[]).await;
        told["changes"][0]["source"]["from"].as_str().is_some_and(|from| from.starts_with(&other))
    };
    eventually(SOON, followed).await;
}
