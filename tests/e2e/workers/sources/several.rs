//! Daemons that share a config, and see different files or die.

use std::fmt::Write as _;

use topup_tests::{Daemon, Launch, Signal, stalls::void};

use super::*;

/// A daemon whose file has this text. Its config is the same as that of every other.
fn daemon(redis: &Redis, text: &str) -> (Daemon, PathBuf) {
    let launch = Launch::new(&config("file = \"tenants.csv\", every = \"1s\"")).redis(redis);
    let file = launch.config().with_file_name("tenants.csv");
    replace(&file, text);
    (launch.run(), file)
}

/// Numbers of the arrangements whose keys are there.
async fn arrangements(redis: &Redis) -> Vec<String> {
    let keys = keys_of_source(redis).await;
    let mut numbers: Vec<String> =
        keys.iter().filter_map(|key| key.rsplit(':').nth(1)).map(str::to_owned).collect();
    numbers.sort();
    numbers.dedup();
    numbers
}

#[tokio::test]
async fn two_daemons_with_different_files_do_not_fight() {
    let redis = Redis::start().await;
    let (mut first, _) = daemon(&redis, "acme,gold\nb,gold\n");
    let user = super::super::fixture::patient(redis.url()).await.limit("user");
    first.wait_for_line("in force from", SOON).await;
    let holder = field(&redis, "daemon").await;
    let (mut second, file) = daemon(&redis, "acme,silver\nc,silver\n");
    second.wait_for_line("ready", SOON).await;
    are(&user, &[("acme", 20), ("b", 20), ("c", 2)]).await;
    let version: String = redis.ask(&["HGET", "topup:{topup}:assigned", " version"]).await;
    for _ in 0..2 {
        looked(&redis).await;
    }
    let after: String = redis.ask(&["HGET", "topup:{topup}:assigned", " version"]).await;
    assert_eq!((version, field(&redis, "daemon").await), (after, holder.clone()));

    // One whose file is gone leaves the turn to the other.
    fs::remove_file(first.config().with_file_name("tenants.csv")).unwrap();
    are(&user, &[("acme", 4), ("b", 2), ("c", 4)]).await;
    assert_ne!(field(&redis, "daemon").await, holder);
    assert_eq!(field(&redis, "problem").await, "");
    // And one that dies, too, by the file that the other has by then.
    replace(&first.config().with_file_name("tenants.csv"), "acme,gold\nb,gold\n");
    second.signal(Signal::KILL);
    are(&user, &[("acme", 20), ("b", 20), ("c", 2)]).await;
    assert!(file.exists());
}

#[tokio::test]
async fn a_daemon_that_dies_while_it_writes_is_replaced_by_the_other() {
    const ROWS: usize = 100_000;
    let redis = Redis::start().await;
    let mut text = String::new();
    for i in 0..ROWS {
        writeln!(text, "customer-{i},{}", ["gold", "silver"][i % 2]).unwrap();
    }
    let (mut first, _) = daemon(&redis, "customer-0,gold\ncustomer-2,gold\n");
    first.wait_for_line("in force from", SOON).await;
    let (mut second, _) = daemon(&redis, &text);
    second.wait_for_line("ready", SOON).await;
    replace(&first.config().with_file_name("tenants.csv"), &text);
    // The arrangement of the first rows has the number 1.
    let assigned = "topup:{topup}:assigned";
    eventually(SOON, async || {
        let written: u64 = redis.ask(&["EXISTS", &format!("{assigned}:user~source:2:700")]).await;
        written == 1
    })
    .await;
    first.signal(Signal::KILL);
    first.wait_exit(SOON).await;
    let shape: String = redis.ask(&["HGET", assigned, "user~source"]).await;
    if !shape.starts_with("1 ") {
        void("a daemon that dies while it writes: it had written everything already");
    }
    let user = super::super::fixture::patient(redis.url()).await.limit("user");
    are(&user, &[("customer-1", 4), ("customer-99998", 20), ("customer-99999", 4), ("customer-100000", 2)])
        .await;
    // Neither a row is missing, nor a key of the others left.
    eventually(SOON, async || {
        let numbers = arrangements(&redis).await;
        if numbers.len() == 1 { Ok(()) } else { Err(numbers) }
    })
    .await;
    let mut rows = 0;
    for key in keys_of_source(&redis).await.iter().filter(|key| !key.ends_with("filter")) {
        rows += redis.ask::<usize>(&["HLEN", key]).await;
    }
    assert_eq!(rows, ROWS);
    let idle: Vec<String> = redis.ask(&["HKEYS", assigned]).await;
    assert!(!idle.iter().any(|field| field.contains("idle")), "{idle:?}");
    assert_eq!(field(&redis, "rows").await, ROWS.to_string());
}
