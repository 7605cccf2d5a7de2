//! Fair shares on a real server: parts, borrowing and the return, by several clients, with a daemon and without.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::task::JoinSet;
use topup::{Bucket, Decision, Error};
use topup_tests::{Cli, Redis, SOON, Stalls, eventually, stalls::void};

use super::fixture::{Fixture, now, patient};

const CONFIG: &str = r#"
[limit.api]
share = "borrow"
capacity = 200
rate = "400/s"
parts = { acme = 2, "free-*" = 1, "*" = 1 }

[limit.slow]
share = "borrow"
capacity = 40
rate = "4/h"
parts = { acme = 3, "*" = 1 }
on_abandon = "refund"

[limit.other]
capacity = 10
rate = "1/h"
"#;

/// Tokens per second of `acme`, `free-*` and `*`.
const OWN: [f64; 3] = [200.0, 100.0, 100.0];
/// Tokens that each of them holds.
const HELD: [f64; 3] = [100.0, 50.0, 50.0];
/// A machine that stands still for longer, in µs, is too busy for the rates.
const LATE: u64 = 100_000;
/// So is one that stands still for a larger part of the time.
const MOST_LATE: f64 = 0.05;

/// A tenant that takes all that it gets.
struct Tenant {
    had: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Tenant {
    /// Tasks that wait for a token each, again and again.
    fn start(buckets: &[Bucket]) -> Self {
        let (had, mut tasks) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        for bucket in buckets.iter().cycle().take(12) {
            let (bucket, had) = (bucket.clone(), had.clone());
            tasks.spawn(async move {
                loop {
                    if bucket.wait(1, SOON).await.is_ok_and(|decision| decision.is_allowed()) {
                        had.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        Self { had, tasks }
    }
}

/// The tokens that each tenant has in about `time`, and the time by Redis in s.
async fn watch(redis: &Redis, tenants: &[&Tenant], time: Duration) -> (Vec<f64>, f64) {
    let had = || tenants.iter().map(|tenant| tenant.had.load(Relaxed)).collect::<Vec<u64>>();
    let (from, before) = (now(redis).await, had());
    let end = from + time.as_micros() as u64;
    eventually(SOON, async || now(redis).await >= end).await;
    let (after, to) = (had(), now(redis).await);
    let each = after.iter().zip(before).map(|(after, before)| (after - before) as f64).collect();
    (each, (to - from) as f64 / 1e6)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_has_its_part_and_borrows_what_the_others_leave() {
    let (mut fixture, stalls) = (Fixture::set(CONFIG).await, Stalls::watch());
    let mut clients = vec![fixture.topup.clone()];
    for _ in 0..2 {
        clients.push(patient(fixture.redis.url()).await);
    }
    // The same tenant in all clients; and several keys of one pattern.
    let of = |key: &str| clients.iter().map(|client| client.limit("api").key(key)).collect::<Vec<_>>();
    let began = now(&fixture.redis).await;
    let acme = Tenant::start(&of("acme"));
    // Its own tokens at once, and the others' from then on.
    watch(&fixture.redis, &[&acme], Duration::from_millis(300)).await;
    let (alone, time) = watch(&fixture.redis, &[&acme], Duration::from_millis(1_200)).await;
    let borrowed = alone[0] / time;

    // Both others come back.
    let free = Tenant::start(&[of("free-1"), of("free-2")].concat());
    let rest = Tenant::start(&[of("somebody"), of("somebody else")].concat());
    let tenants = [&acme, &free, &rest];
    watch(&fixture.redis, &tenants, Duration::from_millis(400)).await;
    let (together, time_together) = watch(&fixture.redis, &tenants, Duration::from_millis(1_200)).await;

    // Without a daemon, and without the one who has half of it.
    fixture.kill_daemon().await;
    let Tenant { had, tasks } = acme;
    drop(tasks);
    let left = [&free, &rest];
    watch(&fixture.redis, &left, Duration::from_millis(1_000)).await;
    let (halves, time_halves) = watch(&fixture.redis, &left, Duration::from_millis(1_200)).await;
    let all = had.load(Relaxed) + free.had.load(Relaxed) + rest.had.load(Relaxed);
    let time_all = (now(&fixture.redis).await - began) as f64 / 1e6;
    println!(
        "alone {borrowed:.0}/s; together {:?}/s; without acme {:?}/s; {all} in {time_all:.2} s",
        together.iter().map(|had| (had / time_together).round()).collect::<Vec<_>>(),
        halves.iter().map(|had| (had / time_halves).round()).collect::<Vec<_>>(),
    );
    let stats: String = fixture.redis.ask(&["INFO", "commandstats"]).await;
    println!("{}", stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default());
    // Never over, whatever the machine does.
    assert!(all as f64 <= 200.0 + 400.0 * time_all + 1.0, "{all} in {time_all} s");
    let late = stalls.total() as f64 / 1e6 / time_all;
    if stalls.worst() > LATE || late > MOST_LATE {
        let worst = stalls.worst();
        return void(&format!(
            "fair shares: the machine stood still for {worst} µs, and {late:.2} of the time"
        ));
    }
    assert!(borrowed > 0.85 * 400.0, "alone: {borrowed}/s");
    for (i, had) in together.iter().enumerate() {
        let (least, most) = (0.85 * OWN[i] * time_together, 1.15 * OWN[i] * time_together + 0.2 * HELD[i]);
        assert!((least..=most).contains(had), "{i} had {had} of {least} to {most}");
    }
    for had in halves {
        let half = 200.0 * time_halves;
        assert!((0.85 * half..=1.15 * half).contains(&had), "{had} of {half}");
    }
}

#[tokio::test]
async fn parts_have_the_contract_of_a_bucket() {
    let mut fixture = Fixture::set(CONFIG).await;
    let slow = fixture.bucket("slow");
    let (acme, other, another) = (slow.key("acme"), slow.key("x"), slow.key("y"));
    assert_eq!(acme.peek().await.unwrap(), Decision::Allowed { remaining: 30, capacity: 30 });
    assert!(matches!(slow.take(1).await, Err(Error::KeyRequired { .. })));
    assert!(matches!(acme.take(31).await, Err(Error::ExceedsCapacity { capacity: 30, .. })));
    assert_eq!(fixture.bucket_keys().await, [""; 0], "a look leaves no key");
    for remaining in (0..30).rev() {
        assert_eq!(acme.take(1).await.unwrap(), Decision::Allowed { remaining, capacity: 30 });
    }
    // The next token of the whole is lent: every quarter of an hour.
    let wait = acme.take(1).await.unwrap().retry_after().unwrap().as_secs();
    assert!((600..=900).contains(&wait), "{wait}");
    // The others have theirs; two keys without parts of their own have one.
    assert!(other.take(6).await.unwrap().is_allowed());
    assert!(!another.take(5).await.unwrap().is_allowed());
    assert_eq!(another.take(4).await.unwrap(), Decision::Allowed { remaining: 0, capacity: 10 });
    let wait = other.take(1).await.unwrap().retry_after().unwrap().as_secs();
    assert!((600..=3_600).contains(&wait), "an hour, or sooner if acme leaves something: {wait}");

    // Tokens that are put back are of the part again.
    assert_eq!(acme.refund(5).await.unwrap(), 5);
    assert_eq!(acme.take(3).await.unwrap(), Decision::Allowed { remaining: 2, capacity: 30 });
    acme.reset().await.unwrap();
    assert_eq!(acme.peek().await.unwrap().remaining(), 30);
    assert_eq!(another.peek().await.unwrap().remaining(), 0);

    // Holds, charges, and takes of several limits.
    let mut hold = acme.reserve_cost(10).await.unwrap();
    hold.settle(4).await.unwrap();
    assert_eq!(acme.peek().await.unwrap().remaining(), 26);
    acme.charge(6).await.unwrap();
    assert_eq!(acme.peek().await.unwrap().remaining(), 20);
    let several = fixture.topup.take_all([(acme.clone(), 5), (fixture.bucket("other"), 10)]).await.unwrap();
    assert!(several.is_allowed());
    let several = fixture.topup.take_all([(acme.clone(), 5), (fixture.bucket("other"), 1)]).await.unwrap();
    assert!(!several.is_allowed());
    assert_eq!(acme.peek().await.unwrap().remaining(), 15);

    // Shown to people and machines.
    let status = async |words: &[&str]| Cli::new(words).redis(&fixture.redis).run().await.stdout;
    let text = status(&["status"]).await;
    assert!(
        text.contains(
            "slow: parts\npart  weight  capacity  tokens  lent\nacme       3        30      15     0"
        ),
        "{text}"
    );
    let json: String = status(&["status", "--json"]).await.split_whitespace().collect();
    let acme_row = r#"{"part":"acme","weight":3,"capacity":30,"tokens_per_second":0.0008333333333333334,"tokens":15,"lent":0}"#;
    assert!(json.contains(acme_row), "{json}");
    let text = status(&["peek", "slow", "--key", "acme"]).await;
    assert!(text.contains("15 of 30"), "{text}");

    // Other weights: tokens stay with their part.
    fixture.reload(&CONFIG.replace("{ acme = 3, \"*\" = 1 }", "{ acme = 1, new = 1, \"*\" = 2 }")).await;
    eventually(SOON, async || acme.peek().await.unwrap().capacity() == 10).await;
    assert_eq!(acme.peek().await.unwrap().remaining(), 10);
    // Tokens that acme had beyond its smaller part are lent.
    assert_eq!(other.peek().await.unwrap(), Decision::Allowed { remaining: 5, capacity: 20 });
    assert_eq!(slow.key("new").peek().await.unwrap().capacity(), 10);
    // A limit that is gone leaves nothing.
    fixture.reload("[limit.other]\ncapacity = 10\nrate = \"1/h\"\n").await;
    eventually(SOON, async || !fixture.bucket_keys().await.iter().any(|key| key.contains("slow"))).await;
}
