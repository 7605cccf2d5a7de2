//! As many decisions as there can be: four workers that ask again as soon as they are answered.

use serde::{Deserialize, Serialize};
use topup_lab::clock::Micros;
use topup_lab::{Quantiles, Summary};

use super::commands;
use crate::{
    fixture::Fixture,
    limiter::{Limiter, LimiterUnderTest},
    orders::Saturate,
    rule::Rule,
};

/// Tasks of each worker.
const TASKS: u32 = 64;
/// Keys where many are asked for.
const KEYS: u32 = 1_000;

/// A load as fast as limiters can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Load {
    /// One bucket that never runs dry: every take is allowed.
    Allowed,
    /// A thousand such buckets in turn.
    Keys,
    /// One bucket of a token a minute: every take but the first is denied.
    Denied,
}

/// The result of a saturation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// The load.
    pub load: Load,
    /// Decisions a second.
    pub rate: f64,
    /// The share that was allowed.
    pub allowed: f64,
    /// µs from asking to the answer.
    pub latency: Option<Quantiles>,
    /// CPU µs of the whole Redis for a decision: network, refill and all.
    pub cpu: f64,
    /// µs of a decision in commands, refill included.
    pub command: f64,
    /// Commands for a decision, refill included.
    pub commands: f64,
    /// Calls that got no answer.
    pub failed: u64,
    /// The CPU µs of all rounds; the other figures are of the one in the middle.
    pub rounds: Summary,
}

// === impl Load ===

impl Load {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Allowed, Self::Keys, Self::Denied];

    const fn rule(self) -> Rule {
        match self {
            Self::Allowed | Self::Keys => Rule::per_second(1_000_000_000, 1_000),
            Self::Denied => Rule { capacity: 1, tokens: 1, micros: 60_000_000 },
        }
    }

    const fn keys(self) -> u32 {
        match self {
            Self::Keys => KEYS,
            Self::Allowed | Self::Denied => 1,
        }
    }

    /// For tables.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Allowed => "one bucket, all allowed",
            Self::Keys => "1,000 buckets, all allowed",
            Self::Denied => "one bucket, all denied",
        }
    }
}

/// Measures `limiter` under `load` for so long.
///
/// # Errors
/// When a worker or Redis fails.
pub async fn measure(
    fixture: &mut Fixture,
    limiter: Limiter,
    load: Load,
    time: Micros,
) -> anyhow::Result<Saturation> {
    let under_test = LimiterUnderTest::new(limiter, load.rule(), "cost");
    fixture.set(std::slice::from_ref(&under_test), load.keys(), false).await?;
    let saturate = Saturate { under_test, tasks: TASKS, keys: load.keys(), time };
    let (seen, counters) = fixture.saturate(&saturate).await?;
    let decisions = seen.decisions.max(1) as f64;
    let (calls, micros) = counters.of(commands(limiter));
    Ok(Saturation {
        load,
        rate: seen.decisions as f64 * 1e6 / time as f64,
        allowed: seen.allowed as f64 / decisions,
        latency: Quantiles::of(seen.latencies.iter().map(|micros| f64::from(*micros))),
        cpu: counters.cpu / decisions,
        command: micros / decisions,
        commands: calls / decisions,
        failed: seen.failed,
        rounds: Summary {
            min: counters.cpu / decisions,
            median: counters.cpu / decisions,
            max: counters.cpu / decisions,
        },
    })
}

// === impl Saturation ===

impl Saturation {
    /// The middle one of several rounds; `None` of none.
    pub fn middle(mut rounds: Vec<Self>) -> Option<Self> {
        let spread = Summary::of(rounds.iter().map(|round| round.cpu))?;
        rounds.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
        let middle = rounds.swap_remove(rounds.len() / 2);
        Some(Self { rounds: spread, ..middle })
    }
}
