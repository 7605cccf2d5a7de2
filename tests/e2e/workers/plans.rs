//! Plans: each key follows the law of its plan, and a change of plan gives no token twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::watch, task::JoinSet};
use topup::{Client, Count, Decision, Error};
use topup_tests::{Attempt, AttemptLog, Cli, Redis, SOON, clock, eventually, none_left, stalls::void};

use super::{
    fixture::{Fixture, now, patient},
    oracle::{Oracle, no_errors},
};

/// Three plans: the limit's own terms, silver and gold.
const CONFIG: &str = r#"
[limit.user]
keyed = true
capacity = 2
rate = "1/s"
plan.silver = { capacity = 4, rate = "2/s" }
plan.gold = { capacity = 20, rate = "10/s" }
"#;

/// Workers that take from keys at random until they are stopped.
struct Load {
    logs: Arc<BTreeMap<String, AttemptLog>>,
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

// === impl Load ===

impl Load {
    /// Clients of their own, each of which takes one token every `every`, of `keys` in turn.
    async fn start(redis: &Redis, clients: u64, keys: &[String], every: Duration) -> Self {
        let logs: BTreeMap<_, _> = keys.iter().map(|key| (key.clone(), AttemptLog::default())).collect();
        let logs = Arc::new(logs);
        let (stop, told) = watch::channel(false);
        let mut running = JoinSet::new();
        for client in 0..clients {
            let (topup, logs, told) = (patient(redis.url()).await, logs.clone(), told.clone());
            let keys = keys.to_vec();
            running.spawn(async move {
                let mut turns = tokio::time::interval(every);
                for i in 0_u64.. {
                    turns.tick().await;
                    if *told.borrow() {
                        return topup.put_back().await;
                    }
                    // Each client goes through the keys in an order of its own.
                    let key = &keys[((i * 7 + client * 31) % keys.len() as u64) as usize];
                    logs[key].push(Attempt::make(&topup.limit("user").key(key)).await);
                }
            });
        }
        Self { logs, stop, running }
    }

    /// Stops them: the attempts of each key.
    async fn stop(self) -> BTreeMap<String, Vec<Attempt>> {
        self.stop.send_replace(true);
        self.running.join_all().await;
        self.logs.iter().map(|(key, log)| (key.clone(), log.take())).collect()
    }
}

/// The instant so many seconds from now, by Redis `TIME`.
async fn later(redis: &Redis, seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(now(redis).await) + Duration::from_secs(seconds)
}

async fn rest(time: Duration) {
    let end = clock::now() + time.as_micros() as u64;
    eventually(time + SOON, async || clock::now() > end).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_keys_of_three_plans_each_keep_their_law_under_five_times_the_load() {
    let mut config = CONFIG.to_owned();
    config.push_str("[limit.user.keys]\n\"s-*\" = \"silver\"\n");
    let keys: Vec<String> = (0..1_000).map(|i| format!("{}-{i}", ["own", "s", "g"][i % 3])).collect();
    keys.iter().filter(|key| key.starts_with('g')).for_each(|key| {
        config.push_str(&format!("{key} = \"gold\"\n"));
    });
    let fixture =
        Fixture::set(&config.replace("capacity = 20, rate = \"10/s\"", "capacity = 8, rate = \"4/s\"")).await;
    // A thousand keys get 2.3 tokens a second each.
    let load = Load::start(&fixture.redis, 4, &keys, Duration::from_micros(350)).await;
    rest(Duration::from_secs(3)).await;
    let logs = load.stop().await;
    let (mut takes, mut allowed, mut worst) = (0, [0; 3], f64::NEG_INFINITY);
    for (key, attempts) in &logs {
        no_errors(attempts);
        let (plan, oracle) = match &key[..1] {
            "o" => (0, Oracle::new(2, 1.0)),
            "s" => (1, Oracle::new(4, 2.0)),
            _ => (2, Oracle::new(8, 4.0)),
        };
        let judgement = oracle.judge(attempts).never_over();
        takes += attempts.len();
        allowed[plan] += judgement.allowed;
        worst = worst.max(judgement.excess);
    }
    println!("{takes} takes, allowed by plan {allowed:?}, worst excess {worst:.3} tokens");
    if takes < 6_000 {
        void("a thousand keys: the machine is too busy for five times their rates");
    }
    assert!(allowed.iter().all(|allowed| *allowed > 0), "{allowed:?}");
    // Each has all the tokens of its plan, and no more.
    for (key, capacity) in [("own-new", 2), ("s-new", 4), ("g-2", 8)] {
        let bucket = fixture.bucket("user").key(key);
        eventually(SOON, async || bucket.take(capacity).await.unwrap().is_allowed()).await;
        let told = bucket.take(capacity + 1).await;
        assert!(matches!(told, Err(Error::ExceedsCapacity { .. })), "{key}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_plan_under_load_gives_no_token_twice() {
    let fixture = Fixture::set(CONFIG).await;
    let assign = async |plan: &str| {
        let before = clock::now();
        fixture.topup.assign("user", "acme", plan, None).await.unwrap();
        (before, clock::now())
    };
    let keys = ["acme".to_owned(), "other".to_owned()];
    assign("gold").await;
    // In force, and full.
    let acme = fixture.bucket("user").key("acme");
    eventually(SOON, async || acme.peek().await.unwrap().remaining() == 20).await;
    let load = Load::start(&fixture.redis, 4, &keys, Duration::from_millis(10)).await;
    rest(Duration::from_millis(1_500)).await;
    let to_silver = assign("silver").await;
    rest(Duration::from_millis(4_000)).await;
    let to_gold = assign("gold").await;
    rest(Duration::from_millis(3_000)).await;
    fixture.topup.unassign("user", "acme").await.unwrap();
    rest(Duration::from_millis(2_500)).await;
    let logs = load.stop().await;
    let attempts = &logs["acme"];
    no_errors(attempts);
    let gold = Oracle::new(20, 10.0).judge(attempts).never_over();
    println!("law 6: {} of {} takes, excess {:.3}", gold.allowed, attempts.len(), gold.excess);
    Oracle::new(2, 1.0).judge(&logs["other"]).never_over();

    // Each plan is in force for all workers 1.25 s after its assignment, and not for any before.
    let ahead = 1_250_000;
    let of = |from: u64, until: u64| -> Vec<Attempt> {
        attempts.iter().filter(|one| one.sent > from && one.received < until).cloned().collect()
    };
    let silver = of(to_silver.1 + ahead, to_gold.0 + ahead);
    let silver = Oracle::new(4, 2.0).judge(&silver).never_over();
    println!("silver: {} takes in {:.1} s, excess {:.3}", silver.allowed, silver.seconds, silver.excess);
    // Gold begins with what silver left, which is at most 4.
    let again = of(to_gold.1 + ahead, to_gold.1 + ahead + 1_000_000);
    let begun = again.iter().filter(|one| one.is_allowed()).count();
    println!("gold again: {begun} takes in its first second");
    assert!(begun <= 4 + 10 + 1, "{begun}");
    if silver.allowed < 5 || begun < 8 {
        void("a change of plan: the machine is too busy to reach the limit");
    }
    let ended = Cli::new(&["status", "--json"]).redis(&fixture.redis).run().await;
    assert!(ended.stdout.contains("user/gold"), "{}", ended.stdout);
}

#[tokio::test]
async fn of_all_tasks_that_take_after_a_change_one_asks_redis() {
    const TASKS: usize = 200;
    let fixture = Fixture::set(CONFIG).await;
    let topup = patient(fixture.redis.url()).await;
    let key = topup.limit("user").key("acme");
    assert!(key.take(1).await.unwrap().is_allowed());
    fixture.topup.assign("user", "acme", "gold", None).await.unwrap();
    // In force, and another worker has moved no tokens.
    rest(Duration::from_millis(1_600)).await;
    fixture.redis.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
    let takes: JoinSet<_> = (0..TASKS)
        .map(|_| {
            let key = key.clone();
            async move { key.take(1).await.unwrap().is_allowed() }
        })
        .collect();
    let allowed = takes.join_all().await.into_iter().filter(|is_allowed| *is_allowed).count();
    // One token of its own bucket, and those of the time since.
    assert!((1..=20).contains(&allowed), "{allowed}");
    let stats: String = fixture.redis.ask(&["INFO", "commandstats"]).await;
    let calls = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<usize>().unwrap())
    };
    // Control polls and scripts ask, too.
    assert!(calls("hget") < TASKS / 2 && calls("get") < TASKS / 2, "{stats}");
}

#[tokio::test]
async fn a_change_of_the_config_moves_keys_and_tokens_at_once() {
    let with = |keys: &str| format!("{CONFIG}[limit.user.keys]\n{keys}\n");
    let mut fixture = Fixture::set(&with("acme = \"gold\"\n\"10.*\" = \"gold\"")).await;
    let (acme, address) = (fixture.bucket("user").key("acme"), fixture.bucket("user").key("10.0.0.1"));
    for bucket in [&acme, &address] {
        let left = bucket.take(17).await.unwrap();
        assert_eq!(left, Decision::Allowed { remaining: 3, capacity: 20 });
    }
    fixture.reload(&with("acme = \"silver\"")).await;
    let capacity = async |bucket: &topup::Bucket| bucket.peek().await.unwrap().capacity();
    eventually(SOON, async || capacity(&acme).await == 4 && capacity(&address).await == 2).await;
    // Gold gives 10 a second, and both had 3 when it ended.
    let left = [&acme, &address].map(async |bucket: &topup::Bucket| bucket.peek().await.unwrap().remaining());
    for (left, most) in left.into_iter().zip([4, 2]) {
        assert!(left.await <= most);
    }
    // The way back: what silver has left stays, and is no new bucket of gold.
    let begun = clock::now();
    let _ = acme.take(4).await.unwrap();
    fixture.reload(&with("acme = \"gold\"")).await;
    eventually(SOON, async || capacity(&acme).await == 20).await;
    let is_allowed = acme.take(15).await.unwrap().is_allowed();
    let most = 4.0 + 10.0 * (clock::now() - begun) as f64 / 1e6;
    assert!(!is_allowed || most >= 15.0, "{most} at most");
    assert!(acme.wait(12, SOON).await.unwrap().is_allowed());
}

#[tokio::test]
async fn exempt_keys_need_no_redis_and_denied_ones_are_told_until_when() {
    let config = format!("{CONFIG}[limit.user.keys]\nfriend = \"exempt\"\nevil = \"deny\"\n");
    let mut fixture = Fixture::set(&config).await;
    let user = fixture.bucket("user");
    let (friend, evil) = (user.key("friend"), user.key("evil"));
    for _ in 0..9 {
        assert_eq!(friend.take(2).await.unwrap(), Decision::Allowed { remaining: 2, capacity: 2 });
        assert_eq!(evil.take(1).await.unwrap().retry_after(), Some(Duration::MAX));
        assert!(evil.wait(1, SOON).await.unwrap().would_deny());
    }
    let api = user.key("own");
    let decided = fixture.topup.take_all([(friend.clone(), 1), (api.clone(), 1)]).await.unwrap();
    assert!(decided.is_allowed() && decided.limits().len() == 2, "{decided:?}");
    let decided = fixture.topup.take_all([(evil.clone(), 1), (api.clone(), 1)]).await.unwrap();
    assert_eq!(decided.denied_by().map(|by| (by.limit(), by.key())), Some(("user", Some("evil"))));
    assert_eq!(api.peek().await.unwrap().remaining(), 1, "nothing is taken beside a denied key");
    let counts = fixture.topup.counts("user");
    assert_eq!((counts.get(Count::Allowed), counts.get(Count::Denied)), (9 + 2, 18 + 1));

    let until = later(&fixture.redis, 3_600).await;
    fixture.topup.assign("user", "late", "deny", Some(until)).await.unwrap();
    let late = user.key("late");
    eventually(SOON, async || !late.peek().await.unwrap().is_allowed()).await;
    let wait = late.take(1).await.unwrap().retry_after().unwrap();
    assert!(wait > Duration::from_secs(3_500) && wait <= Duration::from_secs(3_600), "{wait:?}");

    // Redis is asked nothing of such keys.
    let before = fixture.redis.command_calls("evalsha").await + fixture.redis.command_calls("hget").await;
    for _ in 0..500 {
        assert!(friend.take(1).await.unwrap().is_allowed() && !late.take(1).await.unwrap().is_allowed());
    }
    let calls = fixture.redis.command_calls("evalsha").await + fixture.redis.command_calls("hget").await;
    // Control polls and the daemon go on meanwhile.
    assert!(calls - before < 250, "{}", calls - before);

    let error = fixture.topup.assign("user", "late", "platinum", None).await.unwrap_err();
    assert!(matches!(error, Error::UnknownPlan { .. }), "{error}");
    let error = fixture.topup.assign("user", "late", "a/b", None).await.unwrap_err();
    assert!(matches!(error, Error::InvalidPlan(_)), "{error}");
    fixture.reload("").await;
    none_left(SOON, async || fixture.redis.ask(&["KEYS", "*user*"]).await).await;
}

#[tokio::test]
async fn a_raise_ends_at_its_instant_and_wakes_who_waits() {
    let fixture = Fixture::set(&CONFIG.replace("rate = \"1/s\"", "rate = \"1/h\"")).await;
    let acme = fixture.bucket("user").key("acme");
    assert!(acme.take(2).await.unwrap().is_allowed());
    assert!(!acme.take(1).await.unwrap().is_allowed());
    let waiting = tokio::spawn({
        let acme = acme.clone();
        async move { acme.wait(1, Duration::from_secs(4_000)).await }
    });
    let asked = Arc::new(AtomicU64::new(0));
    asked.store(fixture.redis.command_calls("hget").await, Relaxed);
    let until = later(&fixture.redis, 4).await;
    fixture.topup.assign("user", "acme", "gold", Some(until)).await.unwrap();
    let told = tokio::time::timeout(SOON, waiting).await.expect("the raise comes in time").unwrap();
    assert!(told.unwrap().is_allowed());
    let capacity = acme.peek().await.unwrap().capacity();
    if UNIX_EPOCH + Duration::from_micros(now(&fixture.redis).await) >= until {
        return void("a raise: the machine is too busy to look before its end");
    }
    assert_eq!(capacity, 20);
    eventually(SOON, async || acme.peek().await.unwrap().capacity() == 2).await;
    // By then the bucket of gold had tokens, of which 2 stay.
    assert!(acme.peek().await.unwrap().remaining() <= 2);
    let other: Client = patient(fixture.redis.url()).await;
    assert_eq!(other.limit("user").key("acme").peek().await.unwrap().capacity(), 2);
}

#[tokio::test]
async fn operators_assign_explain_import_and_export() {
    let config = format!(
        "{CONFIG}[limit.user.keys]\n\"ac*\" = \"silver\"\n[limit.api]\ncapacity = 1\nrate = \"1/s\"\n"
    );
    let fixture = Fixture::set(&config).await;
    let run = async |args: &[&str]| Cli::new(args).redis(&fixture.redis).run().await;
    let explain = async |key: &str| run(&["explain", "user", "--key", key]).await.stdout;
    assert!(
        explain("other")
            .await
            .starts_with("limit user, key other: the limit's own terms: capacity 2, rate 1/s")
    );
    assert!(explain("acme").await.contains("config   silver, by \"ac*\"  <- decides"));
    let ended = run(&["assign", "user", "acme", "gold", "--until", "2100-01-01T00:00:00Z"]).await;
    assert!(ended.code == Some(0) && ended.stdout.contains("in force from"), "{ended:?}");
    eventually(SOON, async || {
        explain("acme").await.contains("by hand  gold until 2100-01-01T00:00:00Z  <- decides")
    })
    .await;
    for (args, problem) in [
        (&["assign", "user", "acme", "silber"][..], "its plans are gold, silver"),
        (&["assign", "user", "acme", "a/b"], "is not a plan's name"),
        (&["assign", "api", "acme", "gold"], "one bucket for all"),
        (&["assign", "usr", "acme", "gold"], "did you mean user?"),
        (&["assign", "user", "acme", "gold", "--until", "tomorrow"], "no instant with a time zone"),
        (
            &["assign", "user", "acme", "gold", "--until", "2020-01-01T00:00:00Z"],
            "is past: name a later instant",
        ),
    ] {
        let ended = run(args).await;
        assert!(ended.code != Some(0) && ended.stderr.contains(problem), "{ended:?}");
    }

    let dir = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        let path = dir.path().join("keys.csv");
        std::fs::write(&path, text).unwrap();
        path
    };
    let import = async |text: &str, force: bool| {
        let mut cli = Cli::new(&["import", "user"]).arg(file(text));
        if force {
            cli = cli.arg("--force");
        }
        cli.redis(&fixture.redis).run().await
    };
    let ended = import("key,plan\nacme,gold\nx,platinum\nx\n", false).await;
    assert!(ended.stderr.contains("line 3: ") && ended.stderr.contains("line 4: "), "{ended:?}");
    let many: String = (0..5_000).map(|i| format!("customer-{i},{}\n", ["gold", "silver"][i % 2])).collect();
    let ended = import(&many, false).await;
    assert!(ended.stdout.starts_with("5,000 keys of limit user are assigned, 1 before"), "{ended:?}");
    let exported = run(&["export", "user"]).await.stdout;
    assert_eq!(exported.lines().count(), 5_001);
    assert!(exported.contains("\ncustomer-7,silver,\n"), "a file that can be imported");
    eventually(SOON, async || explain("acme").await.contains("config   silver, by \"ac*\"  <- decides"))
        .await;
    let capacity = async |key: &str| fixture.bucket("user").key(key).peek().await.unwrap().capacity();
    eventually(SOON, async || capacity("customer-7").await == 4 && capacity("customer-8").await == 20).await;
    assert_eq!(capacity("customer-9999").await, 2);

    let ended = import("acme,gold\n", false).await;
    assert!(ended.code == Some(64) && ended.stderr.contains("--force"), "{ended:?}");
    assert!(import("acme,gold\n", true).await.code == Some(0));
    eventually(SOON, async || capacity("customer-8").await == 2 && capacity("acme").await == 20).await;
    let ended = run(&["unassign", "user", "acme"]).await;
    assert!(ended.stdout.contains("assigned no longer"), "{ended:?}");
    eventually(SOON, async || capacity("acme").await == 4).await;
}

/// Holds and charges are of the bucket of the key's plan, also where the plan changes before the hold is settled.
#[tokio::test]
async fn holds_and_charges_are_of_the_plans_bucket() {
    let config = "[limit.user]\nkeyed = true\ncapacity = 10\nrate = \"1/d\"\nmax_debt = 5\n\
                  plan.gold = { capacity = 100, rate = \"1/d\" }\n\
                  [limit.user.keys]\nacme = \"gold\"\nus = \"exempt\"\nevil = \"deny\"\n\
                  [limit.abandoned]\nkeyed = true\ncapacity = 10\nrate = \"1/d\"\non_abandon = \"refund\"\n\
                  plan.gold = { capacity = 100, rate = \"1/d\" }\nkeys.acme = \"gold\"\n\
                  [limit.gpu]\nkeyed = true\nalgorithm = \"concurrency\"\nlimit = 2\nttl = \"30s\"\n";
    let fixture = Fixture::set(config).await;
    let left = async |bucket: &topup::Bucket| bucket.peek().await.unwrap().remaining();
    for (limit, held) in [("user", 50), ("abandoned", 50)] {
        let acme = fixture.bucket(limit).key("acme");
        let mut hold = acme.reserve_cost(held).await.unwrap();
        assert!(hold.is_allowed(), "{limit}: {:?}", hold.decision());
        assert_eq!(hold.settle(20).await.unwrap().charged, 20, "{limit}");
        eventually(SOON, async || left(&acme).await == 80).await;
        let mut holds = fixture.topup.reserve_all([(acme.clone(), 30)]).await.unwrap();
        assert_eq!(holds.settle(&[40]).await.unwrap()[0].charged, 40, "{limit}");
        eventually(SOON, async || left(&acme).await == 40).await;
    }
    let acme = fixture.bucket("user").key("acme");
    let charged = acme.charge(60).await.unwrap();
    assert_eq!(
        (charged.charged, charged.uncharged, charged.remaining),
        (45, 15, 0),
        "all there is, and the debt"
    );
    let other = fixture.bucket("user").key("other");
    assert_eq!(other.charge(3).await.unwrap().remaining, 7, "the limit's own terms");

    // Exempt keys cost nothing, and denied ones get nothing.
    let mut free = fixture.bucket("user").key("us").reserve_cost(1_000).await.unwrap();
    assert!(free.is_allowed());
    assert_eq!(free.settle(2_000).await.unwrap().charged, 2_000);
    assert_eq!(fixture.bucket("user").key("us").charge(1_000).await.unwrap().uncharged, 0);
    assert!(!fixture.bucket("user").key("evil").reserve_cost(1).await.unwrap().is_allowed());
    assert_eq!(fixture.bucket("user").key("evil").charge(1).await.unwrap().charged, 0);

    // Permits have no plans, and nobody may believe that they have.
    let told = fixture.topup.assign("gpu", "acme", "deny", None).await;
    assert!(matches!(told, Err(Error::NotTokens { .. })), "{told:?}");
    let told = Cli::new(&["assign", "gpu", "acme", "deny"]).redis(&fixture.redis).run().await;
    assert!(told.code == Some(64) && told.stderr.contains("permits"), "{told:?}");
    let told = fixture.bucket("gpu").key("acme").charge(1).await;
    assert!(matches!(told, Err(Error::NotTokens { .. })), "{told:?}");
    let told = fixture.bucket("gpu").key("acme").reserve_cost(1).await;
    assert!(matches!(told, Err(Error::NotTokens { .. })), "{told:?}");
}

/// A penalty of the limit is one of its plans, too.
#[tokio::test]
async fn a_key_with_a_plan_is_blocked_as_any_other() {
    let config = "[limit.login]\nkeyed = true\ncapacity = 1\nrate = \"1/s\"\n\
                  penalty = { after = 5, within = \"1min\", block = \"10min\" }\n\
                  plan.gold = { capacity = 2, rate = \"2/s\" }\nkeys.acme = \"gold\"\n";
    let fixture = Fixture::set(config).await;
    let acme = fixture.bucket("login").key("acme");
    let mut denied = 0;
    while denied < 5 {
        denied += u64::from(!acme.take(1).await.unwrap().is_allowed());
    }
    fixture.topup.put_back().await;
    let other = patient(fixture.redis.url()).await.limit("login").key("acme");
    let minute = Duration::from_secs(60);
    eventually(SOON, async || other.peek().await.unwrap().retry_after().is_some_and(|wait| wait > minute))
        .await;
}
