//! Asking one limiter as often as it answers.

use std::sync::Arc;

use futures_util::future::join_all;
use topup_lab::clock::{Micros, now, sleep_until};

use crate::{
    limiter::Ask,
    orders::{Answers, Saturate},
    take::Answer,
};

/// One decision in so many is timed, and kept: a million would be a good part of what is measured.
const SAMPLE: u64 = 16;
/// A task lets others run after so many decisions, for where it is never made to wait for Redis.
const YIELD: u64 = 64;

/// Asks for every key once, before the measurement.
pub(super) async fn warm_up(load: &Saturate, asker: &dyn Ask) {
    for key in 0..load.keys {
        // A call that fails now is counted when it fails later.
        let _ = asker.take(&key.to_string(), 1).await;
    }
}

pub(super) async fn run(
    load: &Saturate,
    asker: Arc<dyn Ask>,
    begin: Micros,
    worker: u32,
) -> anyhow::Result<Answers> {
    sleep_until(begin).await;
    let until = begin + load.time;
    let tasks = (0..load.tasks).map(|task| {
        let first = u64::from(task + worker * load.tasks);
        tokio::spawn(ask(asker.clone(), load.keys, first, until))
    });
    let mut all = Answers::default();
    for task in join_all(tasks).await {
        all = all.plus(task?);
    }
    Ok(all)
}

async fn ask(asker: Arc<dyn Ask>, keys: u32, first: u64, until: Micros) -> Answers {
    let mut seen = Answers::default();
    let names: Vec<String> = (0..keys).map(|key| key.to_string()).collect();
    for turn in first.. {
        let timed = turn % SAMPLE == 0;
        let sent = if timed { now() } else { 0 };
        // A step that has no divisor in common with usual numbers of keys: so tasks do not walk in step.
        let answer = asker.take(&names[(turn * 7_919 % u64::from(keys)) as usize], 1).await;
        match answer {
            Ok(answer) => {
                seen.decisions += 1;
                seen.allowed += u64::from(answer == Answer::Allowed);
            }
            Err(_) => seen.failed += 1,
        }
        if timed {
            let received = now();
            seen.latencies.push(u32::try_from(received - sent).unwrap_or(u32::MAX));
        }
        if turn % YIELD == 0 {
            tokio::task::yield_now().await;
        }
        if turn % SAMPLE == 0 && now() >= until {
            return seen;
        }
    }
    seen
}
