//! A master behind sentinels: found, and followed wherever it goes.

use std::time::Duration;

use topup_tests::{
    Attempt, Cli, Launch, Pace, Redis, SOON, Stalls, Workers, clock, eventually, sentinel::Sentinels,
};

use super::oracle::Oracle;

const CONFIG: &str = "[limit.api]\ncapacity = 10\nrate = \"50/s\"\n";
const PACE: Duration = Duration::from_millis(5);
/// Takes that a replica may not have heard of: those of the last moment before its master is gone.
const LAG: Duration = Duration::from_millis(50);

/// Judges the takes around a failover that began at `gone`: by how much they may be over, and for how long none was
/// allowed.
fn judge(attempts: &[Attempt], gone: u64, stalls: &Stalls, what: &str) {
    let lost_since = gone - LAG.as_micros() as u64 - stalls.worst();
    let lost =
        attempts.iter().filter(|one| one.is_allowed() && (lost_since..=gone).contains(&one.sent)).count();
    let judgement = Oracle::new(10, 50.0).early(lost as f64).judge(attempts).never_over();
    let allowed =
        |after: bool| attempts.iter().filter(move |one| one.is_allowed() && (one.received > gone) == after);
    let (last, first) =
        (allowed(false).map(|one| one.received).max(), allowed(true).map(|one| one.received).min());
    let errors: Vec<&str> = attempts.iter().filter_map(Attempt::error).collect();
    let mut kinds: Vec<&str> = errors.clone();
    kinds.sort_unstable();
    kinds.dedup();
    println!(
        "{what}: no take allowed for {} ms, {} of {} takes failed {kinds:?}; at most {lost} lost; {judgement:?}",
        (first.unwrap() - last.unwrap()) / 1_000,
        errors.len(),
        attempts.len(),
    );
    let failed = attempts.iter().find(|one| matches!(one.answer, topup_tests::Answer::Failed(_)));
    assert!(failed.is_none(), "all errors are transient: {failed:?}");
}

#[tokio::test]
async fn workers_and_daemon_follow_the_master() {
    let mut sentinels = Sentinels::start().await;
    let url = sentinels.url();
    let mut daemon = Launch::new(CONFIG).env("TOPUP_REDIS_URL", &url).run();
    let line = daemon.wait_for_line("on redis+sentinel://***@127.0.0.1:", SOON).await;
    assert!(!line.contains("of-redis") && !line.contains("of-sentinels"), "{line}");
    daemon.wait_for_line("ready", SOON).await;
    let stalls = Stalls::watch();
    let workers = Workers::start(env!("CARGO_BIN_EXE_worker"), 2, &url, "api", Pace::steady(PACE)).await;

    workers.log.allowed(50).await;
    let gone = clock::now();
    sentinels.master().await.server.kill().unwrap();
    workers.log.allowed(100).await;
    judge(&workers.log.take(), gone, &stalls, "the master is killed");
    daemon.wait_for_line("Redis is back", SOON).await;

    // The old master lives on as a replica, and refuses to write.
    sentinels.revive().await;
    sentinels.agree().await;
    workers.log.allowed(50).await;
    let gone = clock::now();
    let before = sentinels.master().await.url().to_owned();
    sentinels.fail_over().await;
    eventually(SOON, async || sentinels.master().await.url() != before).await;
    workers.log.allowed(100).await;
    judge(&workers.log.take(), gone, &stalls, "the master is demoted");

    // Connections to it stay open, and nothing is answered there.
    sentinels.agree().await;
    workers.log.allowed(50).await;
    let gone = clock::now();
    let hung: &Redis = sentinels.master().await;
    hung.server.pause().unwrap();
    workers.log.allowed(100).await;
    judge(&workers.log.take(), gone, &stalls, "the master hangs");

    workers.log.allowed(10).await;
    let gone = clock::now();
    sentinels.kill_sentinels().await;
    workers.log.allowed(100).await;
    let attempts = workers.stop().await;
    judge(&attempts, gone, &stalls, "the sentinels are killed");
    assert_eq!(attempts.iter().find_map(Attempt::error), None);
}

#[tokio::test]
async fn sentinels_that_tell_no_master_are_named() {
    let mut sentinels = Sentinels::start().await;
    let status = async |url: String| Cli::new(&["status", "--redis", &url]).run().await.stdout;
    let told = status(sentinels.url_of("other")).await;
    assert!(told.contains("the sentinels tell no master") && told.contains("\"other\""), "{told}");
    let told = status(sentinels.url().replace("of-sentinels", "guess")).await;
    assert!(
        told.contains("the sentinels tell no master") && told.contains("authentication failed"),
        "{told}"
    );
    let told = status(sentinels.url().replace("of-redis", "guess")).await;
    assert!(told.contains("Redis refuses the password") && !told.contains("guess"), "{told}");
    let told = status(sentinels.url()).await;
    assert!(told.contains("nothing is published"), "{told}");
    sentinels.kill_sentinels().await;
    let told = status(sentinels.url()).await;
    assert!(told.contains("the sentinels tell no master") && told.contains("refused"), "{told}");
    let error = topup::Client::connect(&sentinels.url()).await.map(drop).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("no sentinel tells"), "{error}");
}
