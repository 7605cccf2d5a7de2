//! Clients whose clock steps back.

use std::{cell::Cell, panic, sync::atomic::Ordering::Relaxed, time::Duration};

use futures_util::future::join_all;

use super::{Limit, Topup};
use crate::{Client, Error};

const SECOND: Duration = Duration::from_secs(1);
const TASKS: usize = 16;

thread_local! {
    /// Panics on this thread.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Calls of every kind. Each has to be answered.
async fn call(topup: Topup, task: usize) {
    let client = topup.client_of(Client::builder()).unwrap();
    let key = format!("user-{}", task % 4);
    let (user, all) = (client.limit("user").key(&key), client.limit("all"));
    let (leased, gpu) = (client.limit("leased").key(&key), client.limit("gpu"));
    for _ in 0..5 {
        answered(user.take(1).await);
        answered(leased.take(3).await);
        answered(client.take_all([(user.clone(), 1), (all.clone(), 1)]).await);
        answered(user.refund(1).await);
        answered(all.wait(2, SECOND).await);
        answered(user.peek().await);
        if let Some(Ok(permit)) = answered(gpu.acquire(1, SECOND / 2).await) {
            answered(all.wait(5, SECOND / 4).await);
            drop(permit);
        }
    }
}

/// The answer. By a clock that steps, a deadline may have come.
fn answered<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(answer) => Some(answer),
        Err(Error::DeadlineExceeded { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_fails_no_call_and_ends_no_task() {
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.set(PANICS.get() + 1);
        told(info);
    }));
    for unsteady in [1, 2_000] {
        let limits = Topup::new()
            .limit("user", Limit::token_bucket(20, "10/s").keyed())
            .limit("leased", Limit::token_bucket(1_000, "500/s").keyed().lease(100, SECOND))
            .limit("gpu", Limit::concurrency(3, 2 * SECOND))
            .limit("all", Limit::token_bucket(100, "1000/s"));
        let topup = limits.start().unwrap();
        topup.advance(10 * SECOND).await;
        topup.0.clock.unsteady.store(unsteady, Relaxed);
        let calls: Vec<_> = (0..TASKS).map(|task| tokio::spawn(call(topup.clone(), task))).collect();
        let all = tokio::spawn(join_all(calls));
        for _ in 0..200 {
            topup.advance(SECOND / 10).await;
        }
        assert!(all.is_finished(), "{unsteady} us");
        for one in all.await.unwrap() {
            one.unwrap();
        }
        // Tasks of the client have ended by none either.
        assert_eq!(PANICS.get(), 0, "{unsteady} us");
    }
}
