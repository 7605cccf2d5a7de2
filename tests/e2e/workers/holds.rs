//! Holds: tokens are taken at an estimate and settled at their cost, once, whoever dies meanwhile.

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;
use topup_tests::{SOON, Seed, eventually};

use super::fixture::Fixture;

const CAPACITY: u64 = 10_000_000;
const PROCESSES: usize = 4;
const KILLS: usize = 12;

/// A worker process, killed on drop.
struct Holder {
    child: Child,
    ledger: PathBuf,
}

impl Holder {
    fn start(url: &str, folder: &Path, number: u64) -> Self {
        let ledger = folder.join(number.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_holder"));
        command.args([url, &(number * 7 + 1).to_string()]);
        command.stdin(Stdio::piped()).stdout(File::create(&ledger).unwrap());
        Self { child: command.spawn().unwrap(), ledger }
    }

    fn lines(&self) -> usize {
        std::fs::read_to_string(&self.ledger).unwrap().lines().count()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A hold as a ledger tells it.
#[derive(Debug, Default)]
struct Told {
    limit: String,
    estimate: u64,
    id: Option<String>,
    used: Option<u64>,
    /// Charged and uncharged.
    settled: Option<(u64, u64)>,
    dropped: bool,
    denied: bool,
}

fn read(ledger: &Path) -> Vec<Told> {
    let text = std::fs::read_to_string(ledger).unwrap();
    let mut all: Vec<Told> = Vec::new();
    // A line without its end was being written when the process was killed.
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let words: Vec<&str> = line.split(' ').collect();
        match &words[..] {
            ["take", limit, estimate] => all.push(Told {
                limit: (*limit).to_owned(),
                estimate: estimate.parse().unwrap(),
                ..Told::default()
            }),
            ["ready" | "end"] => {}
            words => {
                let told = all.last_mut().unwrap();
                match words {
                    ["open", id] => told.id = Some((*id).to_owned()),
                    ["use", used] => told.used = Some(used.parse().unwrap()),
                    ["settled", charged, uncharged] => {
                        told.settled = Some((charged.parse().unwrap(), uncharged.parse().unwrap()));
                    }
                    ["drop"] => told.dropped = true,
                    ["denied"] => told.denied = true,
                    _ => assert_eq!(line, "a line of a ledger"),
                }
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_that_are_killed_leave_what_the_rule_says_to_the_token() {
    let holds = "hold_ttl = \"1s\"\nmax_debt = 1000\n";
    let terms = format!("capacity = {CAPACITY}\nrate = \"1/d\"\n{holds}");
    let config = format!("[limit.charged]\n{terms}[limit.refunded]\n{terms}on_abandon = \"refund\"\n");
    let fixture = Fixture::set(&config).await;
    let (folder, seed) = (tempfile::tempdir().unwrap(), Seed::new());
    let mut rng = StdRng::seed_from_u64(seed.number());
    let start = |number| Holder::start(fixture.redis.url(), folder.path(), number);
    let mut ledgers = Vec::new();
    let mut holders: Vec<Holder> = (0..PROCESSES as u64).map(start).collect();
    for kill in 0..KILLS {
        let victim = rng.random_range(0..PROCESSES);
        let least = holders[victim].lines() + rng.random_range(4..60);
        eventually(SOON, async || holders[victim].lines() >= least).await;
        let fresh = start((PROCESSES + kill) as u64);
        let mut dead = std::mem::replace(&mut holders[victim], fresh);
        dead.child.kill().unwrap();
        dead.child.wait().unwrap();
        ledgers.push(dead.ledger.clone());
    }
    for holder in &mut holders {
        drop(holder.child.stdin.take());
    }
    for holder in &mut holders {
        let ended = eventually(SOON, async || holder.child.try_wait().unwrap()).await;
        assert!(ended.success(), "{ended}");
        ledgers.push(holder.ledger.clone());
    }

    // The daemon puts back what the dead have left.
    let redis = &fixture.redis;
    let open = async || redis.ask::<Vec<String>>(&["KEYS", "*:holds"]).await;
    eventually(SOON, async || open().await.is_empty()).await;

    let told: Vec<Told> = ledgers.iter().flat_map(|ledger| read(ledger)).collect();
    let (mut settled, mut dead, mut unsure) = ([0_u64; 2], [0_u64; 2], BTreeSet::from([0]));
    let mut counts = [0_usize; 4];
    for hold in told.iter().filter(|hold| !hold.denied) {
        let at = usize::from(hold.limit == "refunded");
        let mark = match &hold.id {
            Some(id) => {
                redis.ask::<bool>(&["EXISTS", &format!("topup:{{{}:0}}:settled:{id}", hold.limit)]).await
            }
            None => false,
        };
        match (hold.settled, hold.used) {
            (Some((charged, uncharged)), Some(used)) => {
                assert_eq!((charged, uncharged), (used, 0));
                settled[at] += used;
                counts[0] += 1;
            }
            // It was killed while it settled: Redis knows whether that was done.
            (None, Some(used)) if mark || used == hold.estimate && at == 0 => {
                settled[at] += used;
                counts[1] += 1;
            }
            _ if at == 1 => counts[2] += 1,
            _ if hold.id.is_some() => {
                dead[at] += hold.estimate;
                counts[2] += 1;
            }
            // It was killed while it took: nobody knows whether that was done.
            _ => {
                unsure = unsure.iter().flat_map(|sum| [*sum, sum + hold.estimate]).collect();
                counts[3] += 1;
            }
        }
    }
    println!(
        "{} holds: {} settled, {} settled as they died, {} dead or dropped, {} killed while they took",
        told.len(),
        counts[0],
        counts[1],
        counts[2],
        counts[3]
    );
    assert!(counts[0] > 50 && counts[2] > 5, "{counts:?}");
    let taken = async |limit: &str| CAPACITY - fixture.bucket(limit).peek().await.unwrap().remaining();
    let charged = taken("charged").await;
    let beyond = charged.checked_sub(settled[0] + dead[0]);
    assert!(
        beyond.is_some_and(|beyond| unsure.contains(&beyond)),
        "{charged}: {settled:?} {dead:?} {unsure:?}"
    );
    assert_eq!(taken("refunded").await, settled[1], "the dead and the dropped are put back");

    // No key is left but buckets that are not full, and marks that expire.
    for limit in ["charged", "refunded"] {
        fixture.bucket(limit).reset().await.unwrap();
    }
    for key in redis.ask::<Vec<String>>(&["KEYS", "*}:settled:*"]).await {
        let left = redis.ask::<i64>(&["PTTL", &key]).await;
        assert!((-2..=60_000).contains(&left) && left != -1, "{key} lives for {left} ms");
    }
    assert!(open().await.is_empty());
}

#[tokio::test]
async fn debt_is_repaid_before_anything_is_allowed() {
    let terms = "capacity = 10\nrate = \"1/h\"\nmax_debt = 20\n";
    let mut config = String::new();
    for algorithm in ["token-bucket", "lazy-token-bucket", "gcra", "leaky-bucket"] {
        config += &format!("[limit.{algorithm}]\nalgorithm = \"{algorithm}\"\n{terms}");
    }
    config += "[limit.fixed-window]\nalgorithm = \"fixed-window\"\nlimit = 10\nwindow = \"1h\"\n";
    let fixture = Fixture::set(&config).await;
    let hour = Duration::from_secs(3_600);
    for algorithm in ["token-bucket", "lazy-token-bucket", "gcra", "leaky-bucket"] {
        let bucket = fixture.bucket(algorithm);
        assert!(bucket.take(4).await.unwrap().is_allowed());
        let charged = bucket.charge(11).await.unwrap();
        assert_eq!((charged.charged, charged.uncharged, charged.remaining), (11, 0, 0), "{algorithm}");
        // 5 in debt: 6 hours until there is a token.
        assert!(
            charged.retry_after > 5 * hour && charged.retry_after <= 6 * hour,
            "{algorithm}: {charged:?}"
        );
        let charged = bucket.charge(100).await.unwrap();
        assert_eq!((charged.charged, charged.uncharged), (15, 85), "{algorithm}");
        let denied = bucket.take(1).await.unwrap();
        let wait = denied.retry_after().unwrap();
        assert!(wait > 20 * hour && wait <= 21 * hour, "{algorithm}: {denied:?}");
        assert_eq!(bucket.refund(22).await.unwrap(), 2, "{algorithm}");
        assert!(bucket.take(2).await.unwrap().is_allowed(), "{algorithm}");
    }
    let charged = fixture.bucket("fixed-window").charge(12).await.unwrap();
    assert_eq!((charged.charged, charged.uncharged), (10, 2), "a window has no debt");
}

#[tokio::test]
async fn holds_of_several_limits_are_taken_together_and_settled_each() {
    let config = "[limit.requests]\nkeyed = true\ncapacity = 2\nrate = \"1/d\"\n\
                  [limit.input]\nkeyed = true\ncapacity = 1000\nrate = \"1/d\"\n\
                  [limit.output]\nkeyed = true\ncapacity = 1000\nrate = \"1/d\"\nmax_debt = 500\non_abandon = \"refund\"\n";
    let fixture = Fixture::set(config).await;
    let bucket = |limit: &str| fixture.bucket(limit).key("alice");
    let estimates = || [(bucket("requests"), 1), (bucket("input"), 600), (bucket("output"), 500)];
    let left = async || {
        let mut left = [0; 3];
        for (left, limit) in left.iter_mut().zip(["requests", "input", "output"]) {
            *left = bucket(limit).peek().await.unwrap().remaining();
        }
        left
    };
    let mut holds = fixture.topup.reserve_all(estimates()).await.unwrap();
    assert!(holds.is_allowed());
    assert_eq!(left().await, [1, 400, 500]);
    // Nothing of any limit.
    let denied = fixture.topup.reserve_all(estimates()).await.unwrap();
    assert!(!denied.is_allowed() && denied.decision().denied_by().unwrap().limit() == "input");
    assert_eq!(left().await, [1, 400, 500]);
    for _ in 0..2 {
        let settled = holds.settle(&[1, 100, 700]).await.unwrap();
        assert_eq!(settled.iter().map(|settled| settled.charged).collect::<Vec<_>>(), [1, 100, 700]);
        assert_eq!(left().await, [1, 900, 300]);
    }
    // The third is put back when it is dropped, the others stay charged.
    drop(
        fixture
            .topup
            .reserve_all([(bucket("requests"), 1), (bucket("input"), 50), (bucket("output"), 50)])
            .await,
    );
    eventually(SOON, async || left().await == [0, 850, 300]).await;
    assert!(fixture.redis.ask::<Vec<String>>(&["KEYS", "*:holds"]).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_a_limit_that_is_just_published_is_remembered() {
    const LIMITS: usize = 64;
    let terms = "capacity = 10\nrate = \"1/d\"\non_abandon = \"refund\"\n";
    let config: String = (0..LIMITS).map(|limit| format!("[limit.n{limit}]\n{terms}")).collect();
    let mut fixture = Fixture::set("[limit.other]\ncapacity = 1\nrate = \"1/s\"\n").await;
    let mut tasks = JoinSet::new();
    for limit in 0..LIMITS {
        let bucket = fixture.bucket(&format!("n{limit}"));
        tasks.spawn(async move {
            loop {
                if let Ok(hold) = bucket.reserve_cost(10).await {
                    return hold;
                }
            }
        });
    }
    fixture.reload(&config).await;
    let holds = tasks.join_all().await;
    assert!(holds.iter().all(topup::Hold::is_allowed), "{holds:?}");
    let mut remembered = 0;
    for key in fixture.redis.ask::<Vec<String>>(&["KEYS", "topup:*:holds"]).await {
        remembered += fixture.redis.ask::<usize>(&["ZCARD", &key]).await;
    }
    assert_eq!(remembered, LIMITS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_waits_for_leased_tokens_keeps_no_other_one_from_being_put_back() {
    // Minutes below full, so that the leased one counts however late the rest of this is.
    let terms = "capacity = 1000\nrate = \"1/s\"\nhold_ttl = \"1s\"\non_abandon = \"refund\"\n";
    let config =
        format!("[limit.leased]\n{terms}lease = {{ max = 10, ttl = \"60s\" }}\n[limit.plain]\n{terms}");
    let fixture = Fixture::set(&config).await;
    assert!(fixture.bucket("leased").take(500).await.unwrap().is_allowed());
    let counts = async || fixture.redis.ask::<String>(&["GET", "topup:{leased:0}:b:"]).await;
    eventually(SOON, async || {
        assert!(fixture.bucket("leased").take(1).await.unwrap().is_allowed());
        counts().await.parse::<u64>().is_ok()
    })
    .await;
    for limit in ["leased", "plain"] {
        // As of a worker that was killed.
        std::mem::forget(fixture.bucket(limit).reserve_cost(100).await.unwrap());
    }
    let open = async || fixture.redis.ask::<Vec<String>>(&["KEYS", "*:holds"]).await;
    eventually(SOON, async || open().await == ["topup:{leased:0}:holds"]).await;
}
