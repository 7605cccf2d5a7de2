//! One measurement: who decides, under which rule, asked how.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use topup_lab::RedisCounters;

use crate::{limiter::kind::Limiter, rules::Rule};

/// Commands that run a script.
pub(crate) const SCRIPTS: [&str; 3] = ["eval", "evalsha", "fcall"];

/// A measurement to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) limiter: Limiter,
    pub(crate) rule: Rule,
    /// One bucket for each of so many keys; 0 for one bucket for all.
    pub(crate) keys: usize,
    /// Tasks that ask, in each process.
    pub(crate) tasks: usize,
    pub(crate) processes: usize,
    /// Tokens of each take.
    pub(crate) tokens: u64,
    /// Whether each take is also of one bucket for all keys.
    pub(crate) and_all: bool,
    pub(crate) time: Duration,
}

/// Results of one worker process.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) decisions: u64,
    pub(crate) allowed: u64,
    pub(crate) seconds: f64,
    /// CPU seconds used.
    pub(crate) cpu: f64,
    /// Bytes of memory. Absent for limiters in other languages, where they say little.
    #[serde(default)]
    pub(crate) memory: f64,
    /// Quantiles of the time of a decision, in µs.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// Results of one worker process in a phase of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    /// Takes that were due.
    pub(crate) offered: u64,
    pub(crate) decided: u64,
    pub(crate) allowed: u64,
    /// Takes without a decision.
    pub(crate) failed: u64,
    /// Length of the phase in the schedule.
    pub(crate) seconds: f64,
    /// CPU seconds used.
    pub(crate) cpu: f64,
    /// µs, from the instant a take was due, as the two that follow.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// µs that 99 of 100 takes at most were sent after they were due.
    pub(crate) lag: f64,
}

/// The result of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// All workers together; quantiles are those of the worst.
    pub(crate) seen: Seen,
    /// Work of Redis meanwhile.
    pub(crate) redis: RedisCounters,
    /// CPUs that other programs had meanwhile.
    pub(crate) others: f64,
}

// === impl Measurement ===

impl Measurement {
    /// `limiter` under `rule`, as throughput is measured: 256 tasks of one process.
    pub(crate) const fn new(limiter: Limiter, rule: Rule, keys: usize, time: Duration) -> Self {
        Self { limiter, rule, keys, tasks: 256, processes: 1, tokens: 1, and_all: false, time }
    }

    pub(crate) const fn keyed(&self) -> bool {
        self.keys > 0
    }
}

// === impl Answered ===

impl Answered {
    /// All workers together; quantiles are those of the worst.
    pub(crate) fn together(workers: &[Self]) -> Self {
        let most = |of: fn(&Self) -> f64| workers.iter().map(of).fold(0.0, f64::max);
        let sum = |of: fn(&Self) -> u64| workers.iter().map(of).sum();
        Self {
            offered: sum(|seen| seen.offered),
            decided: sum(|seen| seen.decided),
            allowed: sum(|seen| seen.allowed),
            failed: sum(|seen| seen.failed),
            seconds: most(|seen| seen.seconds),
            cpu: workers.iter().map(|seen| seen.cpu).sum(),
            p50: most(|seen| seen.p50),
            p99: most(|seen| seen.p99),
            p999: most(|seen| seen.p999),
            lag: most(|seen| seen.lag),
        }
    }

    /// Decisions a second.
    pub(crate) fn rate(&self) -> f64 {
        self.decided as f64 / self.seconds
    }

    /// Part of the takes that has no decision.
    pub(crate) fn errors(&self) -> f64 {
        self.failed as f64 / self.offered.max(1) as f64
    }
}

// === impl Found ===

impl Found {
    pub(crate) fn new(workers: &[Seen], redis: RedisCounters, others: f64) -> Self {
        let most = |of: fn(&Seen) -> f64| workers.iter().map(of).fold(0.0, f64::max);
        let seen = Seen {
            decisions: workers.iter().map(|seen| seen.decisions).sum(),
            allowed: workers.iter().map(|seen| seen.allowed).sum(),
            seconds: most(|seen| seen.seconds),
            cpu: workers.iter().map(|seen| seen.cpu).sum(),
            memory: most(|seen| seen.memory),
            p50: most(|seen| seen.p50),
            p99: most(|seen| seen.p99),
            p999: most(|seen| seen.p999),
        };
        Self { seen, redis, others }
    }

    /// Decisions a second.
    pub(crate) fn rate(&self) -> f64 {
        self.seen.decisions as f64 / self.seen.seconds
    }

    /// Redis CPU µs for each decision.
    pub(crate) fn cpu(&self) -> f64 {
        self.redis.cpu / self.decisions()
    }

    /// CPU µs of the asking process for each decision.
    pub(crate) fn client_cpu(&self) -> f64 {
        self.seen.cpu * 1e6 / self.decisions()
    }

    /// Commands for each decision.
    pub(crate) fn commands(&self) -> f64 {
        self.redis.calls() / self.decisions()
    }

    /// Scripts for each decision.
    pub(crate) fn scripts(&self) -> f64 {
        self.redis.of(&SCRIPTS).0 / self.decisions()
    }

    fn decisions(&self) -> f64 {
        self.seen.decisions.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_an_open_loop_add_up() {
        let one = |decided, p99| Answered {
            offered: 100,
            decided,
            failed: 100 - decided,
            seconds: 2.0,
            p99,
            ..Answered::default()
        };
        let all = Answered::together(&[one(100, 5.0), one(90, 7.0)]);
        assert_eq!((all.offered, all.decided, all.failed, all.p99), (200, 190, 10, 7.0));
        assert_eq!((all.rate(), all.errors()), (95.0, 0.05));
    }
}
