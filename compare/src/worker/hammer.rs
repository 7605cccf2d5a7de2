//! Asking one limiter as often as it answers.

use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use crate::{
    clock::{Micros, now, sleep_until},
    limiter::{Ask, Contender},
    take::Answer,
};

/// One decision in so many is timed, and kept: a million would be a good part of what is measured.
const SAMPLE: u64 = 16;
/// A task lets others run after so many decisions, for where it is never made to wait for Redis.
const YIELD: u64 = 64;

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hammer {
    /// Whom to ask.
    pub contender: Contender,
    /// How many tasks ask, each again when it has been answered.
    pub tasks: u32,
    /// How many keys they ask for, in turn.
    pub keys: u32,
    /// How long.
    pub time: Micros,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hammered {
    /// Decisions in time.
    pub decisions: u64,
    /// Of these, allowed.
    pub allowed: u64,
    /// Calls that got no answer.
    pub failed: u64,
    /// µs of some of them.
    pub latencies: Vec<u32>,
}

// === impl Hammer ===

impl Hammer {
    /// Asks for every key once, so that what is measured is what goes on and not what begins.
    pub(super) async fn warm_up(&self, asker: &dyn Ask) {
        for key in 0..self.keys {
            // What does not answer now is counted when it does not later.
            let _ = asker.take(&key.to_string(), 1).await;
        }
    }

    pub(super) async fn run(
        &self,
        asker: Arc<dyn Ask>,
        begin: Micros,
        worker: u32,
    ) -> anyhow::Result<Hammered> {
        sleep_until(begin).await;
        let until = begin + self.time;
        let tasks = (0..self.tasks).map(|task| {
            let first = u64::from(task + worker * self.tasks);
            tokio::spawn(hammer(asker.clone(), self.keys, first, until))
        });
        let mut all = Hammered::default();
        for task in join_all(tasks).await {
            all = all.plus(task?);
        }
        Ok(all)
    }
}

async fn hammer(asker: Arc<dyn Ask>, keys: u32, first: u64, until: Micros) -> Hammered {
    let mut seen = Hammered::default();
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

// === impl Hammered ===

impl Hammered {
    /// Both together.
    #[must_use]
    pub fn plus(mut self, mut other: Self) -> Self {
        self.latencies.append(&mut other.latencies);
        Self {
            decisions: self.decisions + other.decisions,
            allowed: self.allowed + other.allowed,
            failed: self.failed + other.failed,
            latencies: self.latencies,
        }
    }
}
