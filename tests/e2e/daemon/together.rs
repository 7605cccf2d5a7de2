//! Law 3 with several daemons at once, and no leader among them.

use serde_json::Value;
use topup_tests::{Cli, Daemon, Redis, SOON, Signal, eventually};

use super::{ready, traffic::Traffic};

const LIMITS: &str = "name = \"shop\"\n[daemon]\ntick = \"5ms\"\n[limit.exact]\ncapacity = 100000\nrate = \"50/s\"\n\
                      [limit.pure]\ncapacity = 500000\nrate = \"50/s\"\ncatch_up = false\n";
const TICK: u64 = 5_000;
const RATE: u64 = 50;

async fn alive(redis: &Redis) -> Vec<Value> {
    let told = Cli::new(&["status", "--json"]).redis(redis).run().await;
    let status: Value = serde_json::from_str(&told.stdout).unwrap();
    status["daemons"].as_array().unwrap().clone()
}

/// Takes until `pure` has had so many more tokens.
async fn take(exact: &mut Traffic, pure: &mut Traffic, tokens: u64) {
    let until = pure.admitted() + tokens;
    eventually(SOON, async || {
        exact.take_some().await;
        pure.decrement_what_there_is().await;
        pure.admitted() >= until
    })
    .await;
}

#[tokio::test]
async fn two_and_three_daemons_credit_as_one_does() {
    let redis = Redis::start().await;
    let mut daemons = vec![ready(LIMITS, &redis).await];
    let mut exact = Traffic::begin(&redis, "exact", RATE).await;
    let mut pure = Traffic::begin(&redis, "pure", RATE).await;
    for count in [2, 3] {
        daemons.push(ready(LIMITS, &redis).await);
        take(&mut exact, &mut pure, 40).await;
        let denied = exact.take_what_there_is().await;
        exact.within_bounds(&denied, TICK);
        exact.audit().await;
        pure.audit().await;
        assert_eq!(alive(&redis).await.len(), count);
    }
    // All but one go, in either way.
    daemons[0].signal(Signal::KILL);
    daemons[1].signal(Signal::TERM);
    for daemon in &mut daemons[..2] {
        daemon.wait_exit(SOON).await;
    }
    take(&mut exact, &mut pure, 40).await;
    pure.audit().await;
    eventually(SOON, async || alive(&redis).await.len() == 1).await;
}

#[tokio::test]
async fn a_change_by_one_of_two_is_followed_by_both() {
    let redis = Redis::start().await;
    let (mut one, other) = (ready(LIMITS, &redis).await, ready(LIMITS, &redis).await);
    super::reload(&mut one, &LIMITS.replace("50/s", "500/s")).await;
    let rate = async || redis.ask::<String>(&["HGET", "topup:{exact:0}:limit", "rate"]).await;
    eventually(SOON, async || rate().await == "500/s").await;
    let said = async |daemon: &Daemon| {
        let generation: u64 = redis.ask(&["GET", "topup:{topup}:generation"]).await;
        daemon.signal(Signal::USR1);
        daemon.lines().iter().any(|line| line.contains(&format!("generation {generation},")))
    };
    eventually(SOON, async || said(&one).await && said(&other).await).await;
}
