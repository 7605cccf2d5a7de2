//! Law 3 when the daemon is killed at any point, again and again.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use topup_tests::{Daemon, Redis, SOON, Seed, Signal, eventually};

use super::{bucket::Stored, ready, traffic::Traffic};

/// `exact` is credited by whoever asks, `pure` by daemons only. Capacities that hold whatever comes between two takes,
/// or while no daemon runs.
const LIMITS: &str = "[daemon]\ntick = \"5ms\"\n[limit.exact]\ncapacity = 100000\nrate = \"50/s\"\n\
                      [limit.pure]\ncapacity = 500000\nrate = \"50/s\"\ncatch_up = false\n";
const TICK: u64 = 5_000;
const RATE: u64 = 50;
const KILLS: usize = 20;

#[tokio::test]
async fn killed_at_random_points_it_doubles_and_loses_nothing() {
    let seed = Seed::new();
    let mut random = StdRng::seed_from_u64(seed.number());
    let redis = Redis::start().await;
    let mut daemon = ready(LIMITS, &redis).await;
    let mut exact = Traffic::begin(&redis, "exact", RATE).await;
    let mut pure = Traffic::begin(&redis, "pure", RATE).await;
    for _ in 0..KILLS {
        // Some are killed before they have published, some in the middle of a pass.
        let until = exact.admitted() + random.random_range(0..8);
        while exact.admitted() < until {
            exact.take_what_there_is().await;
            pure.decrement_what_there_is().await;
        }
        daemon.end(Signal::KILL, SOON).await;
        exact.audit().await;
        pure.audit().await;
        daemon = Daemon::spawn(LIMITS, &redis);
    }
    daemon.wait_for_line("ready", SOON).await;
    let denied = exact.take_what_there_is().await;
    exact.within_bounds(&denied, TICK);
    exact.audit().await;
    // The last daemon has caught up with all that time, and goes on.
    let behind = Duration::from_millis(500).as_micros() as u64;
    eventually(SOON, async || {
        pure.decrement_what_there_is().await;
        let Stored { score, .. } = pure.stored().await;
        if super::now(&redis).await - score < behind { Ok(()) } else { Err(score) }
    })
    .await;
    pure.audit().await;
}
