//! `on_outage`: four workers, and a Redis that hangs or is killed for five seconds.

use std::time::Duration;

use tokio::{sync::watch, task::JoinSet, time::interval};
use topup::{Client, Decision, OnOutage, OutageReason};
use topup_tests::{Attempt, AttemptLog, Redis, SOON, Stalls, clock, eventually};

use super::{
    fixture::{Fixture, briefly_patient, now},
    oracle::Oracle,
};

const CONFIG: &str = "[limit.allow]\ncapacity = 40\nrate = \"100/s\"\non_outage = \"allow\"\n\
                      [limit.deny]\ncapacity = 40\nrate = \"100/s\"\non_outage = \"deny\"\n\
                      [limit.local]\ncapacity = 40\nrate = \"100/s\"\non_outage = \"local\"\n\
                      [limit.unset]\ncapacity = 1000\nrate = \"1000/s\"\n\
                      [limit.log]\nalgorithm = \"sliding-window\"\nlimit = 40\nwindow = \"1s\"\non_outage = \"local\"\n";
const LIMITS: [&str; 3] = ["allow", "deny", "local"];
const WORKERS: usize = 4;
/// Between two takes of a worker from a limit.
const EVERY: Duration = Duration::from_millis(10);
/// Takes from each limit by each worker before, during and after the outage.
const TAKES: [usize; 3] = [130, 500, 150];
/// Takes that an outage has to see once it is noticed.
const AWAY: usize = 1_000;
const DEADLINE: u64 = 250_000;
/// Twice the deadline: one for the calls that find it out, one for the probe.
const NOTICED: u64 = 2 * DEADLINE;
const MILLI: u64 = 1_000;
/// A worker that reports no more is one of all workers for so many µs.
const COUNTS_FOR: u64 = 3_000_000;

/// A take of one limit. Instants and times in µs.
#[derive(Clone, Copy, Debug)]
struct Taken {
    worker: usize,
    limit: &'static str,
    sent: u64,
    took: u64,
    decision: Decision,
}

/// Workers that take from each limit every 10 ms until they are told to stop.
struct Traffic {
    log: AttemptLog,
    over: watch::Sender<bool>,
    running: JoinSet<Vec<Taken>>,
}

// === impl Taken ===

impl From<&Taken> for Attempt {
    fn from(taken: &Taken) -> Self {
        Self { sent: taken.sent, received: taken.sent + taken.took, answer: Ok(taken.decision).into() }
    }
}

// === impl Traffic ===

impl Traffic {
    fn start(clients: &[Client]) -> Self {
        let mut traffic =
            Self { log: AttemptLog::default(), over: watch::Sender::new(false), running: JoinSet::new() };
        for (worker, client) in clients.iter().enumerate() {
            for limit in LIMITS {
                let (log, over) = (traffic.log.clone(), traffic.over.subscribe());
                traffic.running.spawn(take(client.clone(), worker, limit, log, over));
            }
        }
        traffic
    }

    /// Waits until so many more takes from each limit by each worker are answered.
    async fn goes_on(&self, takes: usize) {
        self.log.answered(takes * self.running.len()).await;
    }

    async fn stop(self) -> Vec<Taken> {
        self.over.send_replace(true);
        self.running.join_all().await.into_iter().flatten().collect()
    }
}

async fn take(
    client: Client,
    worker: usize,
    limit: &'static str,
    log: AttemptLog,
    over: watch::Receiver<bool>,
) -> Vec<Taken> {
    let (bucket, mut all, mut turns) = (client.limit(limit), Vec::new(), interval(EVERY));
    while !*over.borrow() {
        turns.tick().await;
        let sent = clock::now();
        let decision = bucket.take(1).await.expect("a limit with a policy always has a decision");
        let taken = Taken { worker, limit, sent, took: clock::now() - sent, decision };
        log.push(Attempt::from(&taken));
        all.push(taken);
    }
    all
}

async fn outage(redis: Redis, hangs: bool) {
    let what = if hangs { "hangs" } else { "killed" };
    let mut fixture = Fixture::on(redis, CONFIG).await;
    let mut clients = Vec::new();
    for _ in 0..WORKERS {
        let client = Client::connect(fixture.redis.url()).await.unwrap();
        for limit in LIMITS {
            let _ = eventually(SOON, async || client.limit(limit).take(1).await).await;
        }
        clients.push(client);
    }
    let index = "topup:{topup}:workers";
    eventually(SOON, async || fixture.redis.ask::<usize>(&["ZCARD", index]).await == WORKERS).await;
    // Every worker reports again, and hears of all others then.
    let counts = format!("({}", now(&fixture.redis).await + COUNTS_FOR);
    let again = async || fixture.redis.ask::<usize>(&["ZCOUNT", index, &counts, "+inf"]).await;
    eventually(SOON, async || again().await == WORKERS).await;
    let stalls = Stalls::watch();
    let traffic = Traffic::start(&clients);
    traffic.goes_on(TAKES[0]).await;
    let down = clock::now();
    let server = &mut fixture.redis.server;
    if hangs {
        server.pause().unwrap()
    } else {
        server.kill().unwrap()
    };
    traffic.goes_on(TAKES[1]).await;
    // On a machine that stands still, the outage is noticed later, and has to be longer.
    let noticed = eventually(SOON, async || {
        let noticed = down + NOTICED + 20 * MILLI + 3 * stalls.worst();
        let away = traffic.log.sent_since(noticed);
        if away >= AWAY { Ok(noticed) } else { Err(away) }
    })
    .await;
    let up = clock::now();
    if hangs {
        server.resume().unwrap()
    } else {
        server.restart().unwrap()
    };
    traffic.goes_on(TAKES[2]).await;
    let taken = traffic.stop().await;

    // The thread may be kept from running again and again.
    let stalled = |take: &Taken| 3 * stalls.worst().max(stalls.between(take.sent, take.sent + take.took));
    let late: Vec<_> =
        taken.iter().filter(|take| take.took > DEADLINE + 20 * MILLI + stalled(take)).collect();
    let (first, worst) = (late.first().map(|take| (take, stalled(take))), stalls.worst());
    assert!(late.is_empty(), "{what}, down {down} to {up}: {} late, {first:?}, stalls {worst}", late.len());
    let away = |take: &&Taken| take.sent >= noticed && take.sent < up;
    let mut fast: Vec<u64> = taken.iter().filter(away).map(|take| take.took).collect();
    fast.sort_unstable();
    println!(
        "{what}: {} takes without Redis, median {} µs, longest {} µs",
        fast.len(),
        fast[fast.len() / 2],
        fast.last().unwrap()
    );
    assert!(fast[fast.len() / 2] < MILLI, "{what}: answers from memory");
    for take in taken.iter().filter(away) {
        assert!(take.decision.is_degraded(), "{what}: {take:?}");
        let allowed = take.decision.is_allowed();
        assert!(take.limit != "allow" || allowed, "{what}: {take:?}");
        assert!(take.limit != "deny" || !allowed, "{what}: {take:?}");
        assert_eq!(take.decision.retry_after().is_none(), allowed, "{what}: {take:?}");
    }
    for worker in 0..WORKERS {
        for limit in LIMITS {
            let own = taken.iter().filter(|take| take.worker == worker && take.limit == limit);
            let last = own.filter(|take| take.decision.is_degraded()).map(|take| take.sent).max().unwrap();
            let back = last.saturating_sub(up);
            let bound = stalls.allow(Duration::from_secs(1)).as_micros() as u64;
            assert!(back <= bound, "{what}: {limit} is back after {back} µs");
        }
    }
    let local = taken.iter().filter(|take| take.limit == "local" && take.decision.is_allowed());
    let alone = local.filter(|take| take.sent >= down && take.sent < up).count() as u64;
    let most = 40 + (up - down) / 10_000 + 1;
    println!("{what}: {alone} of {most} tokens admitted by four local buckets in {} ms", (up - down) / MILLI);
    assert!(alone <= most, "{what}: {alone}");
    // A local bucket by the takes that ask for its tokens: a busy machine makes them rare. It may be empty at the first.
    let local_bucket = Oracle::new(10, 25.0);
    for worker in 0..WORKERS {
        let own = taken.iter().filter(away).filter(|take| take.worker == worker && take.limit == "local");
        let own: Vec<_> = own.map(Attempt::from).collect();
        let Some((first, later)) = own.split_first() else { continue };
        let ideal = local_bucket.ideal(0.0, first.received, later);
        let given = own.iter().filter(|take| take.is_allowed()).count();
        assert!(given >= ideal * 9 / 10, "{what}: worker {worker} got {given} of {ideal} tokens");
    }
    let attempts: Vec<_> = taken.iter().filter(|take| take.limit == "local").map(Attempt::from).collect();
    // The bucket in Redis and the local ones hold 40 tokens each.
    let excess = Oracle::new(40, 100.0).judge(&attempts).excess;
    println!("{what}: {excess:.1} tokens above law 1 in the worst window");
    assert!(excess <= 41.0, "{what}: {excess}");
    let counts = clients[0].outage_counts("deny");
    assert!(counts.allowed == 0 && counts.denied > 100, "{what}: {counts:?}");
}

// On one thread, whose waits for a CPU the stalls tell.
#[tokio::test]
async fn a_redis_that_hangs_comes_to_what_each_limit_says() {
    outage(Redis::start().await, true).await;
}

// On one thread, whose waits for a CPU the stalls tell.
#[tokio::test]
async fn a_redis_that_is_killed_comes_to_what_each_limit_says() {
    outage(Redis::tcp().await, false).await;
}

#[tokio::test]
async fn a_worker_starts_without_redis_and_finds_it() {
    let mut fixture = Fixture::on(Redis::tcp().await, CONFIG).await;
    let url = fixture.redis.url().to_owned();
    fixture.redis.server.kill().unwrap();
    // A limit that was never read is decided by the client's policy.
    let deny = Client::builder().on_outage(OnOutage::Deny).connect_lazy(&url).unwrap();
    let allow = Client::builder().on_outage(OnOutage::Allow).connect_lazy(&url).unwrap();
    let local = Client::builder().on_outage(OnOutage::Local).connect_lazy(&url).unwrap();
    let unset = Client::connect_lazy(&url).unwrap();
    for (client, allowed) in [(&deny, false), (&allow, true), (&local, false)] {
        let decision = client.limit("unset").take(1).await.unwrap();
        assert!(decision.is_degraded() && decision.is_allowed() == allowed, "{decision:?}");
        let both = client.take_all([(client.limit("unset"), 1), (client.limit("log"), 1)]).await.unwrap();
        assert!(both.is_degraded() && both.is_allowed() == allowed, "{both:?}");
    }
    let bucket = unset.limit("unset");
    assert!(bucket.take(1).await.is_err_and(|error| error.is_transient()));
    assert!(bucket.clone().on_outage(OnOutage::Allow).take(1).await.unwrap().is_allowed());
    assert!(unset.throttle("a", 1, 1, 1, 1).await.is_err_and(|error| error.is_transient()));
    // A wrong URL is an error at once.
    assert!(Client::connect_lazy("http://nowhere").is_err());
    let brief = Client::builder().connect_timeout(Duration::from_millis(50));
    let sent = clock::now();
    assert!(brief.connect(&url).await.is_err_and(|error| error.is_transient()));
    assert!(clock::now() - sent >= 50 * MILLI, "it has tried for as long as it was told");
    let patient = tokio::spawn({
        let url = url.clone();
        async move { Client::builder().connect_timeout(SOON).connect(&url).await }
    });
    fixture.redis.server.restart().unwrap();
    let patient = patient.await.unwrap().unwrap();
    for client in [&deny, &allow, &local, &unset, &patient] {
        eventually(SOON, async || {
            client
                .limit("unset")
                .take(1)
                .await
                .is_ok_and(|decision| matches!(decision, Decision::Allowed { .. }))
        })
        .await;
    }
}

#[tokio::test]
async fn a_local_bucket_charges_redis_for_what_it_gave() {
    let mut fixture = Fixture::on(Redis::tcp().await, CONFIG).await;
    let topup = briefly_patient(fixture.redis.url()).await;
    let quota = "[limit.month]\ncapacity = 20\nrate = \"1/h\"\non_outage = \"local\"\n\
                 [limit.user]\nkeyed = true\ncapacity = 10\nrate = \"1/h\"\n";
    fixture.reload(quota).await;
    let (month, user) = (topup.limit("month"), topup.limit("user").key("alice").on_outage(OnOutage::Local));
    for bucket in [&month, &user] {
        // A peek is never decided without Redis.
        eventually(SOON, async || bucket.peek().await.is_ok()).await;
        assert!(bucket.take(1).await.unwrap().is_allowed());
    }
    eventually(SOON, async || fixture.redis.ask::<u64>(&["ZCARD", "topup:{topup}:workers"]).await == 1).await;
    let left = |decision: Decision| decision.remaining();
    let before = (left(month.peek().await.unwrap()), left(user.peek().await.unwrap()));
    fixture.redis.server.pause().unwrap();
    // Takes hang until a probe has opened the circuit. Redis may carry them out when it goes on.
    let mut hung = 0;
    eventually(SOON, async || {
        let decision = month.take(1).await.unwrap();
        let is_open = matches!(decision, Decision::Degraded { reason: OutageReason::CircuitOpen, .. });
        hung += u64::from(!is_open);
        is_open
    })
    .await;
    let mut given = topup.outage_counts("month").allowed;
    for _ in 0..4 {
        given += u64::from(month.take(1).await.unwrap().is_allowed());
        // All or nothing in local buckets, too: nobody has eleven of these tokens.
        let both = topup.take_all([(month.clone(), 1), (user.clone(), 9)]).await.unwrap();
        assert!(both.is_degraded());
        given += u64::from(both.is_allowed());
    }
    let user_given = topup.outage_counts("user").allowed;
    fixture.redis.server.resume().unwrap();
    eventually(SOON, async || month.peek().await.is_ok()).await;
    let after = (left(month.peek().await.unwrap()), left(user.peek().await.unwrap()));
    let lost = before.0 - after.0 - given;
    assert!(lost <= hung, "{before:?} {after:?}, {given} given, {hung} hung");
    assert_eq!((before.1 - after.1, user_given), (9, 1), "nine once");
}

/// Every call there is, each from a client of its own, whose breaker is closed. Returns µs, and the clients: they must end
/// after all calls, since the end of one waits for Redis.
async fn every_call(clients: Vec<Client>) -> (Vec<u64>, Vec<Client>) {
    let mut calls = JoinSet::new();
    for (call, topup) in clients.into_iter().enumerate() {
        calls.spawn(async move {
            let (bucket, other) = (topup.limit("unset"), topup.limit("log").on_outage(OnOutage::Deny));
            let sent = clock::now();
            match call {
                0 => drop(bucket.take(1).await),
                1 => drop(other.take(1).await),
                2 => drop(topup.take_all([(bucket, 1), (other, 1)]).await),
                3 => drop(bucket.peek().await),
                4 => drop(bucket.refund(1).await),
                5 => drop(bucket.reset().await),
                6 => drop(bucket.wait(1, Duration::from_millis(100)).await),
                7 => drop(topup.throttle("a", 1, 1, 1, 1).await),
                8 => drop(bucket.reserve(1, Duration::ZERO).await),
                _ => drop(
                    topup::Admission::of(&topup)
                        .take(topup::Take::of("unset"))
                        .decide_or(OnOutage::Local)
                        .await,
                ),
            }
            (clock::now() - sent, topup)
        });
    }
    calls.join_all().await.into_iter().unzip()
}

#[tokio::test]
async fn no_call_outlives_its_deadline() {
    let fixture = Fixture::on(Redis::tcp().await, CONFIG).await;
    let mut known = Vec::new();
    for _ in 0..10 {
        let client = Client::connect(fixture.redis.url()).await.unwrap();
        for limit in ["unset", "log"] {
            let _ = eventually(SOON, async || client.limit(limit).take(1).await).await;
        }
        known.push(client);
    }
    // A server that accepts connections and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let strangers = (0..10).map(|_| Client::connect_lazy(&url).unwrap()).collect();
    fixture.redis.server.pause().unwrap();
    let stalls = Stalls::watch();
    // `refund` and `reset` may wait for tokens in hand elsewhere, 10 ms.
    let (known, strangers) = tokio::join!(every_call(known), every_call(strangers));
    let (worst, waited) = (stalls.worst(), stalls.waited());
    let bound = DEADLINE + 30 * MILLI + worst + waited;
    for (took, _) in [&known, &strangers] {
        assert!(took.iter().all(|took| *took <= bound), "{took:?}, stood {worst} µs, waited {waited} µs");
    }
    fixture.redis.server.resume().unwrap();
}
