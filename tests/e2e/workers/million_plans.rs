//! A million assigned keys: what they cost those that are not assigned, and Redis. Takes a minute, so by hand:
//!
//! ```sh
//! cargo test --release -p topup-tests --test e2e -- --ignored --nocapture a_million_assignments
//! ```

use std::fmt::Write as _;

use tokio::task::JoinSet;
use topup::Bucket;
use topup_tests::{Cli, Redis, SOON, clock, eventually};

use super::fixture::Fixture;

const ASSIGNED: u64 = 1_000_000;
/// Tasks that take at once.
const TASKS: u64 = 64;
/// Keys that each limit is asked for.
const KEYS: u64 = 20_000;
/// Rounds of each limit, in turns.
const ROUNDS: usize = 12;
/// Takes of one task in a round.
const TAKES: u64 = 4_000;

/// Two limits alike, of which the keys of one are assigned.
const CONFIG: &str = r#"
[limit]
plain = { keyed = true, capacity = 100, rate = "100/s" }
user = { keyed = true, capacity = 100, rate = "100/s", plan.gold = { capacity = 1000, rate = "1000/s" } }
"#;

async fn used_memory(redis: &Redis) -> u64 {
    let info: String = redis.ask(&["INFO", "memory"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    line.trim().parse().unwrap()
}

/// Takes a second of keys of `limit` that are not assigned.
async fn throughput(limit: &Bucket) -> f64 {
    let began = clock::now();
    let tasks: JoinSet<()> = (0..TASKS)
        .map(|task| {
            let limit = limit.clone();
            async move {
                for take in 0..TAKES {
                    let key = format!("guest-{}", (take * 37 + task * 311) % KEYS);
                    let _ = limit.key(key).take(1).await.unwrap();
                }
            }
        })
        .collect();
    tasks.join_all().await;
    (TASKS * TAKES) as f64 / (clock::now() - began) as f64 * 1e6
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn a_million_assignments_cost_keys_without_one_nothing() {
    let fixture = Fixture::set(CONFIG).await;
    let (plain, user) = (fixture.bucket("plain"), fixture.bucket("user"));
    let before = used_memory(&fixture.redis).await;
    let mut rows = String::new();
    for i in 0..ASSIGNED {
        writeln!(rows, "customer-{i:07},gold").unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("customers.csv");
    std::fs::write(&file, rows).unwrap();
    let ended = Cli::new(&["import", "user"]).arg(&file).redis(&fixture.redis).run().await;
    print!("{}", ended.stdout);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let each = (used_memory(&fixture.redis).await - before) as f64 / ASSIGNED as f64;
    println!("{each:.1} bytes of Redis for each assignment, of a key of 16 bytes");
    let customer = user.key("customer-0000007");
    eventually(SOON, async || customer.peek().await.unwrap().capacity() == 1000).await;

    let (mut with, mut without) = (Vec::new(), Vec::new());
    throughput(&plain).await;
    throughput(&user).await;
    for round in 0..ROUNDS {
        // Each comes first in every other round.
        let order = if round % 2 == 0 { [&plain, &user] } else { [&user, &plain] };
        let [first, second] = [throughput(order[0]).await, throughput(order[1]).await];
        let (of_plain, of_user) = if round % 2 == 0 { (first, second) } else { (second, first) };
        without.push(of_plain);
        with.push(of_user);
    }
    let median = |of: &mut Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let (without, with) = (median(&mut without), median(&mut with));
    println!("{with:.0} takes/s with a million assignments, {without:.0} without: {:.3}", with / without);
    assert!(each <= 64.0, "{each}");
}
