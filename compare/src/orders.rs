//! Messages between a comparison and its worker processes.

use serde::{Deserialize, Serialize};
use topup_lab::clock::Micros;

use crate::{limiter::LimiterUnderTest, traffic::Traffic};

/// Orders of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The Redis to ask.
    pub redis: String,
    /// The worker's number, from 0.
    pub worker: u32,
    /// The number of workers.
    pub workers: u32,
    /// Error of the worker's clock, in µs.
    pub skew: i64,
    /// The work.
    pub work: Work,
}

/// Work of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Ask all of these limiters as the traffic says. The answer is a list of takes for each, in order.
    Play {
        /// The limiters.
        limiters_under_test: Vec<LimiterUnderTest>,
        /// The traffic.
        traffic: Traffic,
        /// The seed of the traffic.
        seed: u64,
    },
    /// Ask one limiter as often as it answers. The answer is [`Answers`].
    Saturate(Saturate),
}

/// Load of tasks that ask again as soon as they are answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saturate {
    /// The limiter.
    pub under_test: LimiterUnderTest,
    /// Tasks of each worker.
    pub tasks: u32,
    /// Keys, asked for in turn.
    pub keys: u32,
    /// Length of the load.
    pub time: Micros,
}

/// Answers to a [`Saturate`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answers {
    /// Decisions in time.
    pub decisions: u64,
    /// Allowed decisions.
    pub allowed: u64,
    /// Calls without an answer.
    pub failed: u64,
    /// µs of a sample of the calls.
    pub latencies: Vec<u32>,
}

// === impl Answers ===

impl Answers {
    /// The sum of both.
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
