//! Several configs on one Redis, in every order of start, reload, stop and crash: no limit is lost, and each conflict is
//! said by both. `--nocapture` prints the table.

mod fixture;
mod scenarios;

use std::{collections::BTreeMap, panic::resume_unwind};

use tokio::task::{JoinSet, LocalSet};
use topup_tests::{Cli, Daemon, Launch, NotifySocket, Redis, SOON, eventually};

use self::{
    fixture::Fixture,
    scenarios::{SCENARIOS, Step},
};

/// Scenarios that run at once, each on a Redis of its own.
const AT_ONCE: usize = 6;

#[tokio::test]
async fn no_order_of_events_loses_a_limit() {
    LocalSet::new().run_until(play_all()).await;
}

#[allow(clippy::print_stdout, reason = "the table of scenarios")]
async fn play_all() {
    let mut stories = BTreeMap::new();
    let (mut playing, mut scenarios) = (JoinSet::new(), SCENARIOS.iter().enumerate());
    loop {
        if playing.len() < AT_ONCE
            && let Some((number, (name, steps))) = scenarios.next()
        {
            playing.spawn_local(async move { (number + 1, play(name, steps).await) });
            continue;
        }
        let Some(played) = playing.join_next().await else { break };
        let (number, story) = played.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        stories.insert(number, story);
    }
    for (number, story) in &stories {
        println!("{number:3}. {story}");
    }
    assert_eq!(stories.len(), SCENARIOS.len());
}

async fn play(name: &str, steps: &[Step]) -> String {
    let mut fixture = Fixture::open(name).await;
    for (event, published, said) in steps {
        fixture.play(event, published, said).await;
    }
    fixture.story()
}

/// Waits until the daemon has said so, before or after it was ready.
async fn says(daemon: &Daemon, words: &str) {
    eventually(SOON, async || {
        let lines = daemon.lines();
        if lines.iter().any(|line| line.contains(words)) { Ok(()) } else { Err(lines) }
    })
    .await;
}

fn config(name: &str, rate: &str) -> String {
    format!("name = \"{name}\"\n[limit.api]\ncapacity = 10\nrate = \"{rate}\"\n")
}

/// One is first, and the other is refused.
#[tokio::test]
async fn of_two_configs_that_start_at_once_one_is_refused_and_both_say_so() {
    let redis = Redis::start().await;
    let mut one = Daemon::spawn(&config("one", "1/h"), &redis);
    let mut other = Daemon::spawn(&config("other", "2/h"), &redis);
    one.wait_for_line("ready", SOON).await;
    other.wait_for_line("ready", SOON).await;
    let rate: String = redis.ask(&["HGET", "topup:{api:0}:limit", "rate"]).await;
    let (first, second) = if rate == "1/h" { (one, other) } else { (other, one) };
    says(&first, "limit api contested: config").await;
    says(&second, "limit api refused: config").await;
    assert_eq!(redis.ask::<String>(&["HGET", "topup:{api:0}:limit", "rate"]).await, rate);
}

#[tokio::test]
async fn a_conflict_is_in_the_status_line_of_both() {
    let (redis, mut first, mut second) = (Redis::start().await, NotifySocket::bind(), NotifySocket::bind());
    let mut one = Launch::new(&config("one", "1/h")).redis(&redis).notify(&first).run();
    one.wait_for_line("ready", SOON).await;
    let _other = Launch::new(&config("other", "2/h")).redis(&redis).notify(&second).run();
    for (systemd, words) in
        [(&mut first, "limit api contested: config other"), (&mut second, "limit api refused: config one")]
    {
        while !systemd.wait_for("STATUS=", SOON).await.contains(words) {}
    }
    let told = Cli::new(&["status"]).redis(&redis).run().await;
    assert!(told.stdout.contains("limit api is refused to config other"), "{}", told.stdout);
}

/// A file in the current folder is for whoever names it.
#[tokio::test]
async fn a_config_in_the_current_folder_is_not_used() {
    // Some machine may have a file at that path.
    let told = Cli::new(&["check"]).file("config.toml", &config("here", "1/h")).run().await;
    let said = told.stdout + &told.stderr;
    assert!(said.contains("/etc/topup/config.toml"), "{said}");
}

/// Without a name, the path is the name: the same file started twice is one config, another file is another.
#[tokio::test]
async fn a_config_without_a_name_has_that_of_its_file() {
    let redis = Redis::start().await;
    let text = "[limit.api]\ncapacity = 10\nrate = \"1/h\"\n";
    let mut daemon = Daemon::spawn(text, &redis);
    let line = daemon.wait_for_line("serves 1 limit of config /", SOON).await;
    assert!(line.contains(daemon.config().to_str().unwrap()), "{line}");
    daemon.wait_for_line("ready", SOON).await;
    let claims: Vec<String> = redis.ask(&["HKEYS", "topup:{topup}:claims"]).await;
    assert!(claims.contains(&format!("api {}", daemon.config().display())), "{claims:?}");
    daemon.reload(&format!("name = \"other\"\n{text}"));
    daemon.wait_for_line("name has changed: that takes a restart", SOON).await;
}

/// Limits stay published without their claims, and the daemon makes the claims again.
#[tokio::test]
async fn lost_and_poisoned_claims_are_made_again() {
    let redis = Redis::start().await;
    let mut daemon = Daemon::spawn(&config("one", "1/h"), &redis);
    daemon.wait_for_line("ready", SOON).await;
    let claimed = async || {
        let kind: String = redis.ask(&["TYPE", "topup:{topup}:claims"]).await;
        kind == "hash" && redis.ask(&["HEXISTS", "topup:{topup}:claims", "api one"]).await
    };
    eventually(SOON, claimed).await;
    for key in ["topup:{topup}:claims", "topup:{topup}:owners"] {
        for poison in [
            ["DEL", key].as_slice(),
            &["SET", key, "junk"],
            &["HSET", key, "version", "1e309", "api one", "\u{1}"],
        ] {
            if poison[0] == "HSET" {
                redis.ask::<u64>(&["DEL", key]).await;
            }
            redis.ask::<redis::Value>(poison).await;
            eventually(SOON, async || if claimed().await { Ok(()) } else { Err(format!("{poison:?}")) })
                .await;
        }
    }
    assert_eq!(redis.ask::<String>(&["HGET", "topup:{api:0}:limit", "rate"]).await, "1/h");
}
