//! The laws, in the time of the test's clock: never over, and never starved.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rand::{RngExt, rngs::StdRng};
use topup::{
    Client,
    testing::{Limit, Topup},
};

use crate::seeds::each_seed;

/// µs for which tasks take.
const RUN: u64 = 20_000_000;

/// The promise of a limit: in every window of `w` µs at most `most(w)` tokens.
type Most = fn(u64) -> u64;

/// Tasks of two clients that take and wait for tokens all the time. Returns the instants of all tokens that they got.
async fn takes(mut dice: StdRng, limit: Limit) -> Vec<u64> {
    let topup = Topup::new().limit("api", limit).start().unwrap();
    let clients = [topup.client(), topup.client_of(Client::builder()).unwrap()];
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for task in 0..6 {
        let (api, topup, taken) = (clients[task % 2].limit("api"), topup.clone(), taken.clone());
        let count = dice.random_range(1..=2);
        tasks.push(tokio::spawn(async move {
            loop {
                if api.wait(count, Duration::from_secs(3)).await.unwrap().is_allowed() {
                    let now = topup.elapsed().as_micros() as u64;
                    taken.lock().unwrap().extend((0..count).map(|_| now));
                } else {
                    // A task that never waits would stop the clock for a while.
                    tokio::task::yield_now().await;
                }
            }
        }));
    }
    while topup.elapsed().as_micros() < RUN.into() {
        topup.advance(Duration::from_micros(dice.random_range(0..2_000_000))).await;
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let mut taken = taken.lock().unwrap().clone();
    taken.sort_unstable();
    taken
}

#[test]
fn no_window_has_more_than_the_limit_allows_and_none_of_the_rate_is_lost() {
    each_seed(2, |mut dice| async move {
        let limits: [(Limit, Most, usize); 7] = [
            (Limit::token_bucket(10, "5/s"), |w| 10 + w * 5 / 1_000_000, 100),
            (Limit::gcra(10, "5/s"), |w| 10 + w * 5 / 1_000_000, 100),
            (Limit::lazy_token_bucket(10, "5/s"), |w| 10 + w * 5 / 1_000_000, 100),
            (Limit::leaky_bucket(10, "5/s"), |w| 10 + w * 5 / 1_000_000, 100),
            (
                Limit::token_bucket(10, "5/s").lease(5, Duration::from_millis(500)),
                |w| 10 + w * 5 / 1_000_000,
                90,
            ),
            (Limit::sliding_window(["10/2s"]), |w| 10 * (w / 2_000_000 + 1), 80),
            (
                Limit::token_bucket(10, "5/s").without_catch_up(Duration::from_millis(100)),
                |w| 11 + w * 5 / 1_000_000,
                90,
            ),
        ];
        for (limit, most, least) in limits {
            let name = format!("{limit:?}");
            let fork = rand::SeedableRng::seed_from_u64(dice.random());
            let taken = takes(fork, limit).await;
            assert!(taken.len() >= least, "{} taken of {name}", taken.len());
            for (i, from) in taken.iter().enumerate() {
                for (more, to) in taken[i..].iter().enumerate() {
                    assert!((more as u64) < most(to - from), "{} in {} µs of {name}", more + 1, to - from);
                }
            }
        }
    });
}
