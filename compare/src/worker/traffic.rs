//! Asks as a traffic says.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::sync::mpsc;
use topup_lab::clock::{Micros, now, sleep_until};

use crate::{
    limiter::{Ask, LimiterUnderTest},
    orders::Orders,
    take::{Answer, Take},
    traffic::{Arrival, Pattern, Traffic, arrivals, certain_plan},
};

/// Pause after a denial that does not say when to come back.
const IMPATIENCE: Duration = Duration::from_millis(1);

/// A worker's part of a traffic.
#[derive(Debug)]
pub(super) enum Part {
    /// At these instants, whatever has been answered by then.
    Open(Vec<Arrival>),
    /// The same for each key by itself, one take after the other.
    InTurn(Vec<Vec<Arrival>>),
    /// These keys, each whenever it was told to come back, for so long.
    WhenTold(Vec<u32>, Micros),
}

// === impl Part ===

impl Part {
    pub(super) fn new(orders: &Orders, traffic: &Traffic, under_test: &LimiterUnderTest, seed: u64) -> Self {
        let (worker, workers) = (orders.worker, orders.workers);
        let mine = |key: &u32| key % workers == worker;
        match traffic.pattern {
            Pattern::Certain => {
                let plan = certain_plan(traffic, seed, under_test.limiter.ideal());
                let keys = plan.into_iter().enumerate().filter(|(key, _)| mine(&(*key as u32)));
                Self::InTurn(
                    keys.map(|(_, takes)| takes.into_iter().map(|(take, _)| take).collect()).collect(),
                )
            }
            Pattern::Promises => {
                Self::WhenTold((0..traffic.key_count()).filter(mine).collect(), traffic.time)
            }
            _ => {
                let all = arrivals(traffic, seed).into_iter().enumerate();
                Self::Open(
                    all.filter(|(turn, _)| mine(&(*turn as u32))).map(|(_, arrival)| arrival).collect(),
                )
            }
        }
    }

    pub(super) async fn play(self, asker: Arc<dyn Ask>, begin: Micros) -> Vec<Take> {
        match self {
            Self::Open(arrivals) => open(asker, arrivals, begin).await,
            Self::InTurn(keys) => {
                join_all(keys.into_iter().map(|takes| in_turn(&*asker, takes, begin))).await.concat()
            }
            Self::WhenTold(keys, time) => {
                join_all(keys.into_iter().map(|key| when_told(&*asker, key, begin, time))).await.concat()
            }
        }
    }
}

async fn open(asker: Arc<dyn Ask>, arrivals: Vec<Arrival>, begin: Micros) -> Vec<Take> {
    let (tell, mut told) = mpsc::unbounded_channel();
    for arrival in arrivals {
        sleep_until(begin + arrival.at).await;
        let (asker, tell) = (asker.clone(), tell.clone());
        tokio::spawn(async move {
            let _ = tell.send(ask(&*asker, arrival.key, arrival.count).await);
        });
    }
    drop(tell);
    let mut takes = Vec::new();
    while let Some(take) = told.recv().await {
        takes.push(take);
    }
    takes
}

async fn in_turn(asker: &dyn Ask, arrivals: Vec<Arrival>, begin: Micros) -> Vec<Take> {
    let mut takes = Vec::new();
    for arrival in arrivals {
        sleep_until(begin + arrival.at).await;
        takes.push(ask(asker, arrival.key, arrival.count).await);
    }
    takes
}

async fn when_told(asker: &dyn Ask, key: u32, begin: Micros, time: Micros) -> Vec<Take> {
    sleep_until(begin).await;
    let mut takes = Vec::new();
    let mut promised = 0;
    while now() < begin + time {
        let take = ask(asker, key, 1).await;
        takes.push(take);
        match take.answer {
            Answer::Denied { retry_after: Some(wait) } if take.sent >= promised => {
                promised = take.received + wait;
                sleep_until(promised).await;
            }
            Answer::Allowed => promised = 0,
            _ => tokio::time::sleep(IMPATIENCE).await,
        }
    }
    takes
}

async fn ask(asker: &dyn Ask, key: u32, count: u32) -> Take {
    let (sent, name) = (now(), key.to_string());
    let (answer, held) = match asker.hold(&name, u64::from(count)) {
        Some(held) => held.await,
        None => asker.take(&name, u64::from(count)).await.map(|answer| (answer, None)),
    }
    .unwrap_or((Answer::Failed, None));
    let received = now();
    let end = match held {
        Some(held) => Some(held.end().await),
        None => None,
    };
    Take { bucket: key, worker: 0, count, sent, received, answer, end }
}
