//! Several takes in one decision.

use std::time::Duration;

use tokio::{task::JoinSet, time::interval};
use topup::{Bucket, Client, Error, LimitDecision};

use topup_embedded::RedisServer;
use topup_lab::ReservedPort;
use topup_tests::{Redis, SOON, clock, eventually};

use topup_wire::limit::Algorithm;

use super::fixture::{Fixture, holds_all_but, patient};

const CONFIG: &str = r#"
[limit]
all = { capacity = 100, rate = "1/h" }
api = { capacity = 50, rate = "1/min" }
user = { keyed = true, capacity = 5, rate = "1/h" }
login = { keyed = true, algorithm = "lazy-token-bucket", capacity = 3, rate = "1/h" }
"#;

async fn left(bucket: &Bucket) -> u64 {
    bucket.peek().await.unwrap().remaining()
}

fn takes(topup: &Client, user: &str) -> [(Bucket, u64); 4] {
    let keyed = |limit: &str| topup.limit(limit).key(user);
    [(topup.limit("all"), 1), (topup.limit("api"), 2), (keyed("user"), 1), (keyed("login"), 1)]
}

#[tokio::test]
async fn all_is_taken_or_nothing() {
    let fixture = Fixture::set(CONFIG).await;
    for taken in 1..=3 {
        let multi = fixture.topup.take_all(takes(&fixture.topup, "a")).await.unwrap();
        assert!(multi.is_allowed() && multi.denied_by().is_none() && multi.retry_after().is_none());
        let remaining: Vec<u64> = multi.limits().iter().map(|level| level.decision().remaining()).collect();
        assert_eq!(remaining, [100 - taken, 50 - 2 * taken, 5 - taken, 3 - taken]);
    }
    let multi = fixture.topup.take_all(takes(&fixture.topup, "a")).await.unwrap();
    assert!(!multi.is_allowed());
    let by = multi.denied_by().unwrap();
    assert_eq!((by.limit(), by.key()), ("login", Some("a")));
    assert!(multi.retry_after().unwrap() > Duration::from_secs(3_590));
    for ((bucket, _), remaining) in takes(&fixture.topup, "a").iter().zip([97, 44, 2, 0]) {
        assert_eq!(left(bucket).await, remaining, "{bucket:?}");
    }
}

#[tokio::test]
async fn the_limit_with_the_longest_wait_is_named() {
    let fixture = Fixture::set(CONFIG).await;
    let [api, user] = [fixture.bucket("api"), fixture.bucket("user").key("a")];
    assert!(api.take(50).await.unwrap().is_allowed() && user.take(5).await.unwrap().is_allowed());
    let multi = fixture.topup.take_all([(api, 1), (user, 1)]).await.unwrap();
    assert_eq!(multi.denied_by().unwrap().limit(), "user");
    let waits: Vec<_> = multi.limits().iter().map(|level| level.decision().retry_after().unwrap()).collect();
    assert_eq!(multi.retry_after(), waits.into_iter().max());
}

const EVERY: &str = r#"
[limit]
token-bucket = { capacity = 9, rate = "1/h" }
lazy-token-bucket = { algorithm = "lazy-token-bucket", capacity = 8, rate = "1/h" }
gcra = { algorithm = "gcra", capacity = 7, rate = "1/h" }
leaky-bucket = { algorithm = "leaky-bucket", capacity = 6, rate = "1/h" }
fixed-window = { algorithm = "fixed-window", limit = 5, window = "1h", aligned = false }
sliding-counter = { algorithm = "sliding-counter", limit = 3, window = "1h" }

[limit.sliding-window]
algorithm = "sliding-window"
rules = [{ limit = 4, window = "1h" }, { limit = 100, window = "1d" }]
"#;

#[tokio::test]
async fn every_algorithm_decides_with_the_others() {
    let fixture = Fixture::set(EVERY).await;
    let every = Algorithm::ALL.map(|algorithm| fixture.bucket(algorithm.as_str()));
    let takes = || every.iter().map(|bucket| (bucket.clone(), 1));
    for taken in 1..=3 {
        let multi = fixture.topup.take_all(takes()).await.unwrap();
        assert!(multi.is_allowed(), "{multi:?}");
        for level in multi.limits() {
            let decision = level.decision();
            assert_eq!(decision.remaining(), decision.capacity() - taken, "{level:?}");
        }
    }
    let denied = fixture.topup.take_all(takes()).await.unwrap();
    assert_eq!(denied.denied_by().map(LimitDecision::limit), Some("sliding-counter"), "{denied:?}");
    for bucket in &every {
        let decision = bucket.peek().await.unwrap();
        assert_eq!(decision.remaining(), decision.capacity() - 3, "{bucket:?}");
    }
}

#[tokio::test]
async fn takes_of_one_bucket_are_one() {
    let fixture = Fixture::set(CONFIG).await;
    let user = || fixture.bucket("user").key("a");
    let multi = fixture.topup.take_all([(user(), 2), (user(), 3)]).await.unwrap();
    assert!(multi.is_allowed());
    assert_eq!((multi.limits().len(), left(&user()).await), (1, 0));
}

#[tokio::test]
async fn an_impossible_take_is_an_error_and_takes_nothing() {
    let fixture = Fixture::set(CONFIG).await;
    let (all, user) = (fixture.bucket("all"), fixture.bucket("user").key("a"));
    let told = fixture.topup.take_all([(all.clone(), 1), (user.clone(), 6)]).await;
    assert!(matches!(told, Err(Error::ExceedsCapacity { capacity: 5, .. })), "{told:?}");
    let told = fixture.topup.take_all([(all.clone(), 1), (fixture.bucket("none"), 1)]).await;
    assert!(matches!(told, Err(Error::UnknownLimit { .. })), "{told:?}");
    let told = fixture.topup.take_all([(all.clone(), 1), (fixture.bucket("user"), 1)]).await;
    assert!(matches!(told, Err(Error::KeyRequired { .. })), "{told:?}");
    let told = fixture.topup.take_all([(all.clone(), 1), (user, 0)]).await;
    assert!(matches!(told, Err(Error::InvalidCount { .. })), "{told:?}");
    assert_eq!(left(&all).await, 100);
    assert!(fixture.topup.take_all([]).await.unwrap().is_allowed());
}

/// One node that serves every hash slot: it refuses scripts whose keys are not in one of them. Its port for other nodes is
/// kept beside it.
async fn cluster() -> (Fixture, ReservedPort) {
    // Its port for other nodes would be its own and 10,000, which may be none.
    let bus = ReservedPort::reserve().unwrap();
    let node = RedisServer::builder().tcp();
    let node = node.arg("--cluster-enabled", "yes").arg("--cluster-port", bus.number().to_string());
    let redis = Redis::with(node).await;
    let hash_slots: Vec<String> = (0..16_384).map(|hash_slot| hash_slot.to_string()).collect();
    let words: Vec<&str> =
        ["CLUSTER", "ADDSLOTS"].into_iter().chain(hash_slots.iter().map(String::as_str)).collect();
    redis.ask::<()>(&words).await;
    eventually(SOON, async || {
        let info = redis.ask::<String>(&["CLUSTER", "INFO"]).await;
        if info.contains("cluster_state:ok") { Ok(()) } else { Err(info) }
    })
    .await;
    (Fixture::on(redis, CONFIG).await, bus)
}

#[tokio::test]
async fn across_the_slots_of_a_cluster_what_was_taken_is_given_back() {
    let (fixture, _bus) = cluster().await;
    for _ in 0..3 {
        assert!(fixture.topup.take_all(takes(&fixture.topup, "a")).await.unwrap().is_allowed());
    }
    for _ in 0..20 {
        let denied = fixture.topup.take_all(takes(&fixture.topup, "a")).await.unwrap();
        assert_eq!(denied.denied_by().unwrap().limit(), "login");
        // A denial from memory would ask nothing of Redis.
        let login = fixture.bucket("login").key("a");
        assert!(login.refund(1).await.unwrap() == 1 && login.take(1).await.unwrap().is_allowed());
    }
    let taken_of = [(3, 100), (6, 50), (3, 5), (3, 3)];
    for ((bucket, _), (taken, capacity)) in takes(&fixture.topup, "a").iter().zip(taken_of) {
        holds_all_but(taken, capacity, bucket).await;
    }
}

#[tokio::test]
async fn many_limits_are_decided_by_one_command_and_a_denial_by_none() {
    let fixture = Fixture::set(CONFIG).await;
    assert!(fixture.topup.take_all(takes(&fixture.topup, "a")).await.unwrap().is_allowed());
    fixture.redis.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
    for _ in 0..2 {
        assert!(fixture.topup.take_all(takes(&fixture.topup, "a")).await.unwrap().is_allowed());
    }
    assert!(!fixture.topup.take_all(takes(&fixture.topup, "a")).await.unwrap().is_allowed());
    let scripts = fixture.redis.command_calls("evalsha").await;
    for _ in 0..1_000 {
        let denied = fixture.topup.take_all(takes(&fixture.topup, "a")).await.unwrap();
        assert_eq!(denied.denied_by().unwrap().limit(), "login");
    }
    // Besides ours, the daemon looks after its buckets, and tells of it.
    println!(
        "{scripts} scripts, {} with a thousand more takes",
        fixture.redis.command_calls("evalsha").await
    );
    assert!(fixture.redis.command_calls("evalsha").await < scripts + 100);
}

#[tokio::test]
async fn together_no_level_is_over_its_limit_and_all_spend_the_same() {
    let fixture = Fixture::set(CONFIG).await;
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let topup = fixture.topup.clone();
        tasks.spawn(async move {
            let mut allowed = 0;
            for turn in 0..40 {
                let user = ((task + turn) % 10).to_string();
                allowed += u64::from(topup.take_all(takes(&topup, &user)).await.unwrap().is_allowed());
            }
            allowed
        });
    }
    let allowed: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(allowed, 25, "what the narrowest level allows: 50 by twos");
    assert_eq!([left(&fixture.bucket("all")).await, left(&fixture.bucket("api")).await], [75, 0]);
    let mut spent = [0, 0];
    for user in 0..10 {
        let user = user.to_string();
        spent[0] += 5 - left(&fixture.bucket("user").key(&user)).await;
        spent[1] += 3 - left(&fixture.bucket("login").key(&user)).await;
    }
    assert_eq!(spent, [25, 25]);
}

const BUSY: &str = r#"
[limit]
all = { capacity = 100, rate = "100/s" }
api = { capacity = 50, rate = "50/s" }
user = { keyed = true, algorithm = "lazy-token-bucket", capacity = 5, rate = "5/s" }
"#;

/// The same without scripts: `user` goes first, then the others, of which one has a lease.
const BUSY_NATIVE: &str = r#"
[limit]
all = { capacity = 100, rate = "100/s", lease = { max = 100, ttl = "1s" } }
api = { capacity = 50, rate = "50/s" }
user = { keyed = true, capacity = 5, rate = "5/s" }
"#;

/// Twenty users of four clients ask for ten times what they may have.
async fn no_level_gives_more_than_it_may(config: &str, least: f64) {
    const FOR: Duration = Duration::from_secs(2);
    let fixture = Fixture::set(config).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(patient(fixture.redis.url()).await);
    }
    let begun = clock::now();
    let mut tasks = JoinSet::new();
    for user in 0..20 {
        let topup = clients[user % clients.len()].clone();
        tasks.spawn(async move {
            let (mut allowed, mut turns) = (Vec::new(), interval(Duration::from_millis(20)));
            while clock::now() < begun + FOR.as_micros() as u64 {
                turns.tick().await;
                let user = topup.limit("user").key(user.to_string());
                let multi =
                    topup.take_all([(topup.limit("all"), 1), (topup.limit("api"), 1), (user, 1)]).await;
                if multi.unwrap().is_allowed() {
                    allowed.push(clock::now());
                }
            }
            allowed
        });
    }
    let users = tasks.join_all().await;
    let (first, end) = (*users.iter().flatten().min().unwrap(), clock::now());
    let [seconds, since_first] = [begun, first].map(|from| (end - from) as f64 / 1e6);
    let unspent =
        left(&fixture.bucket("api")).await + clients.iter().map(Client::prefetched_tokens).sum::<u64>();
    for allowed in &users {
        assert!(allowed.len() as f64 <= 5.0 + 5.0 * seconds, "{} for one user", allowed.len());
    }
    let all: usize = users.iter().map(Vec::len).sum();
    println!("{all} and {unspent} in {seconds} s");
    // Nine of ten are denied. The tokens that denials spent would be missing here.
    assert!((all as f64 + unspent as f64) >= least * (50.0 + 50.0 * since_first), "{all} in {seconds} s");
    assert!(all as f64 <= 50.0 + 50.0 * seconds + 5.0, "{all} in {seconds} s");
}

#[tokio::test]
async fn under_a_load_of_ten_times_the_rate_every_level_gives_all_it_may_and_no_more() {
    no_level_gives_more_than_it_may(BUSY, 0.9).await;
}

#[tokio::test]
async fn under_a_load_of_ten_times_the_rate_native_takes_give_all_they_may_and_no_more() {
    no_level_gives_more_than_it_may(BUSY_NATIVE, 0.85).await;
}

/// Limits that all users share, with a lease and without, beside limits of each user.
const SHARED: &str = r#"
[limit]
leased-small = { capacity = 1000, rate = "1/h", lease = { max = 100, ttl = "60s" } }
unleased-small = { capacity = 1000, rate = "1/h" }
leased-few = { capacity = 5, rate = "1/h", lease = { max = 5, ttl = "60s" } }
unleased-few = { capacity = 5, rate = "1/h" }
leased-narrow = { capacity = 40, rate = "1/h", lease = { max = 40, ttl = "60s" } }
unleased-narrow = { capacity = 40, rate = "1/h" }
fast = { keyed = true, capacity = 100, rate = "100/s" }
slow = { keyed = true, capacity = 1, rate = "1/h" }
"#;

#[tokio::test]
async fn a_denied_user_spends_nothing_of_what_all_share() {
    let fixture = Fixture::set(SHARED).await;
    for name in ["leased-small", "unleased-small"] {
        let all = fixture.bucket(name);
        for user in 0..50 {
            let both = || [(all.clone(), 1), (fixture.bucket("slow").key(format!("{name} {user}")), 1)];
            assert!(fixture.topup.take_all(both()).await.unwrap().is_allowed());
            let denied = fixture.topup.take_all(both()).await.unwrap();
            assert_eq!(denied.denied_by().unwrap().limit(), "slow");
        }
        fixture.topup.put_back().await;
        holds_all_but(50, 1_000, &all).await;
    }
}

#[tokio::test]
async fn users_get_their_tokens_back_when_what_all_share_is_gone() {
    let fixture = Fixture::set(SHARED).await;
    for name in ["leased-few", "unleased-few"] {
        let user = |user: u64| fixture.bucket("slow").key(format!("{name} {user}"));
        let both = |number: u64| [(fixture.bucket(name), 1), (user(number), 1)];
        for number in 0..5 {
            assert!(fixture.topup.take_all(both(number)).await.unwrap().is_allowed());
        }
        for number in 5..20 {
            let denied = fixture.topup.take_all(both(number)).await.unwrap();
            assert_eq!(denied.denied_by().unwrap().limit(), name);
        }
        for number in 0..20 {
            holds_all_but(u64::from(number < 5), 1, &user(number)).await;
        }
    }
}

/// Tokens of a fast limit that denials take are lost, so a worker asks in order for a quarter of what there is at most.
#[tokio::test]
async fn a_user_who_asks_at_once_for_more_than_all_share_hardly_spends_more_than_he_gets() {
    let fixture = Fixture::set(SHARED).await;
    for name in ["leased-narrow", "unleased-narrow"] {
        let user = fixture.bucket("fast").key(name);
        let both = || fixture.topup.take_all([(fixture.bucket(name), 1), (user.clone(), 1)]);
        // The worker learns what there is, of one take after the other.
        for _ in 0..10 {
            assert!(both().await.unwrap().is_allowed());
        }
        let at_once = (0..60).map(|_| both());
        let told = futures_util::future::join_all(at_once).await;
        assert_eq!(told.iter().filter(|told| told.as_ref().unwrap().is_allowed()).count(), 30, "{name}");
        let left = left(&user).await;
        assert!(left >= 60 - 30 / 4, "{name}: {left} of 100 left after 40");
    }
}
