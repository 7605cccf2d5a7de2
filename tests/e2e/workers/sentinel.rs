//! A master behind sentinels: found, and followed wherever it goes.

use std::time::Duration;

use topup::Client;
use topup_tests::{
    Answer, Attempt, Cli, Daemon, Launch, Pace, SOON, Stalls, Workers, clock, eventually, sentinel::Sentinels,
};

use super::{fixture::patient, oracle::Oracle};

const CONFIG: &str = "[limit.api]\ncapacity = 10\nrate = \"50/s\"\n";
const CAPACITY: u32 = 10;
const RATE: f64 = 50.0;
const PACE: Duration = Duration::from_millis(5);
/// The replication lag on one machine: takes so shortly before their master is gone may be lost with it.
const LAG: Duration = Duration::from_millis(50);

/// Judges the takes around a failover that began at `gone`, and says for how long none was allowed. At most `lost` takes
/// went with the old master. A bucket has no more tokens than its capacity, however many they are. While workers
/// `disagree` on the master, each of the two admits the rate.
fn judge(attempts: &[Attempt], gone: u64, lost: usize, disagree: Duration, what: &str) {
    let early = f64::from(CAPACITY).min(lost as f64) + RATE * disagree.as_secs_f64();
    let judgement = Oracle::new(CAPACITY, RATE).early(early).judge(attempts).never_over();
    let allowed =
        |after: bool| attempts.iter().filter(move |one| one.is_allowed() && (one.received > gone) == after);
    let last = allowed(false).map(|one| one.received).max().unwrap();
    let first = allowed(true).map(|one| one.received).min().unwrap();
    let mut errors: Vec<&str> = attempts.iter().filter_map(Attempt::error).collect();
    let failed = errors.len();
    errors.sort_unstable();
    errors.dedup();
    println!(
        "{what}: no take allowed for {} ms, {failed} of {} takes failed {errors:?}; {lost} may be lost; {judgement:?}",
        (first - last) / 1_000,
        attempts.len(),
    );
    let failed = attempts.iter().find(|one| matches!(one.answer, Answer::Failed(_)));
    assert!(failed.is_none(), "all errors are transient: {failed:?}");
}

/// Takes that may have been lost with a master that was gone at `gone`.
fn lost(attempts: &[Attempt], gone: u64, stalls: &Stalls) -> usize {
    let since = gone - LAG.as_micros() as u64 - stalls.worst();
    attempts.iter().filter(|one| one.is_allowed() && (since..=gone).contains(&one.sent)).count()
}

/// A daemon and two workers at the master of `sentinels`.
async fn at_work(sentinels: &Sentinels) -> (Daemon, Workers, Stalls) {
    let url = sentinels.url();
    let mut daemon = Launch::new(CONFIG).env("TOPUP_REDIS_URL", &url).run();
    let line = daemon.wait_for_line("on redis+sentinel://***@127.0.0.1:", SOON).await;
    assert!(!line.contains("of-redis") && !line.contains("of-sentinels"), "{line}");
    daemon.wait_for_line("ready", SOON).await;
    let stalls = Stalls::watch();
    let workers = Workers::start(env!("CARGO_BIN_EXE_worker"), 2, &url, "api", Pace::steady(PACE)).await;
    workers.log.allowed(30).await;
    (daemon, workers, stalls)
}

#[tokio::test]
async fn workers_and_daemon_follow_the_master() {
    let mut sentinels = Sentinels::start().await;
    mistakes_are_told(&sentinels).await;
    let (mut daemon, workers, stalls) = at_work(&sentinels).await;
    let gone = clock::now();
    sentinels.master().await.server.kill().unwrap();
    workers.log.allowed(50).await;
    let attempts = workers.log.take();
    judge(&attempts, gone, lost(&attempts, gone, &stalls), Duration::ZERO, "the master is killed");
    daemon.wait_for_line("Redis is back", SOON).await;

    sentinels.revive().await;
    sentinels.agree().await;
    workers.log.allowed(30).await;
    let gone = clock::now();
    let before = sentinels.master().await.url().to_owned();
    sentinels.fail_over().await;
    eventually(SOON, async || sentinels.master().await.url() != before).await;
    workers.log.allowed(50).await;
    // The old master goes on for some seconds. Workers leave it within a quarter of a second, and a question.
    let disagree = Duration::from_millis(350) + Duration::from_micros(stalls.worst());
    judge(&workers.stop().await, gone, usize::MAX, disagree, "the master is demoted");
}

#[tokio::test]
async fn they_leave_a_master_that_hangs_and_do_without_sentinels() {
    let mut sentinels = Sentinels::start().await;
    let url = sentinels.url();
    let (_daemon, workers, stalls) = at_work(&sentinels).await;
    let topup = patient(&url).await;
    // Connections to it stay open, and nothing is answered there.
    let gone = clock::now();
    sentinels.master().await.server.pause().unwrap();
    workers.log.allowed(50).await;
    let attempts = workers.log.take();
    judge(&attempts, gone, lost(&attempts, gone, &stalls), Duration::ZERO, "the master hangs");

    workers.log.allowed(10).await;
    let gone = clock::now();
    sentinels.kill_sentinels().await;
    workers.log.allowed(50).await;
    let attempts = workers.stop().await;
    judge(&attempts, gone, 0, Duration::ZERO, "the sentinels are killed");
    assert_eq!(attempts.iter().find_map(Attempt::error), None);

    eventually(SOON, async || topup.limit("api").peek().await.unwrap().remaining() == u64::from(CAPACITY))
        .await;
    let told = status(url.clone()).await;
    assert!(told.contains("the sentinels tell no master") && told.contains("refused"), "{told}");
    let error = Client::connect(&url).await.map(drop).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("no sentinel tells"), "{error}");
}

async fn status(url: String) -> String {
    Cli::new(&["status", "--redis", &url]).run().await.stdout
}

/// A wrong name and each wrong password are told from the others, and none is repeated.
async fn mistakes_are_told(sentinels: &Sentinels) {
    let told = status(sentinels.url_of("other")).await;
    assert!(told.contains("the sentinels tell no master") && told.contains("\"other\""), "{told}");
    let told = status(sentinels.url().replace("of-sentinels", "guess")).await;
    assert!(told.contains("the sentinels tell no master") && told.contains("WRONGPASS"), "{told}");
    let told = status(sentinels.url().replace("of-redis", "guess")).await;
    assert!(told.contains("Redis refuses the password") && !told.contains("guess"), "{told}");
    assert!(status(sentinels.url()).await.contains("nothing is published"));
}
