//! A comparison from beginning to end.

mod accuracy;
mod answers;

use std::time::Duration;
use topup_lab::clock;

use crate::{
    comparison::{About, Comparison, Cost},
    cost::{self, Load, Pace, Saturation},
    fixture::Fixture,
    limiter::Limiter,
    report::tell,
    traffic::{self, Traffic},
    verdict,
};
use anyhow::ensure;

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The limiter.
    pub limiters: Vec<Limiter>,
    /// The traffics.
    pub traffics: Vec<Traffic>,
    /// Rounds of each traffic. Costs are measured once.
    pub rounds: u32,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Whether to measure costs too.
    pub costs: bool,
    /// Whether to end within a minute.
    pub quick: bool,
    /// Worker processes.
    pub workers: u32,
    /// The command line, for the report.
    pub command: String,
}

/// Seconds of a usual traffic.
const SECONDS: f64 = 4.0;
/// The same, of a quick run.
const QUICK_SECONDS: f64 = 1.5;
/// Active buckets while the daemon's upkeep is measured.
const UPKEEP: u32 = 5_000;

/// The traffics named, or all; of a quick run, those that show most.
///
/// # Errors
/// When one is named that is not there.
pub fn traffics(named: &[String], quick: bool) -> anyhow::Result<Vec<Traffic>> {
    let all = traffic::all(if quick { QUICK_SECONDS } else { SECONDS });
    if let Some(unknown) = named.iter().find(|name| all.iter().all(|traffic| traffic.name != **name)) {
        let names: Vec<String> = all.into_iter().map(|traffic| traffic.name).collect();
        anyhow::bail!("no traffic is called {unknown:?}: name some of {}", names.join(", "));
    }
    let wanted = |traffic: &Traffic| {
        if named.is_empty() { !quick || traffic.quick } else { named.contains(&traffic.name) }
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// Compares as chosen.
///
/// # Errors
/// When Redis, a worker or the daemon fails.
pub async fn run(fixture: &mut Fixture, choices: &Choices) -> anyhow::Result<Comparison> {
    ensure!(!choices.limiters.is_empty(), "nobody is to be compared");
    let mut comparison = Comparison::new(about(fixture.server().version().await?, choices));
    for (turn, traffic) in choices.traffics.iter().enumerate() {
        tell(&format!("traffic {} of {}: {}", turn + 1, choices.traffics.len(), traffic.name));
        accuracy::play(fixture, choices, traffic, &mut comparison).await?;
    }
    if choices.costs {
        costs(fixture, choices, &mut comparison).await?;
    }
    comparison.verdicts = verdict::verdicts(&comparison);
    Ok(comparison)
}

async fn costs(fixture: &mut Fixture, choices: &Choices, into: &mut Comparison) -> anyhow::Result<()> {
    let pace = if choices.quick {
        Pace { saturate: 0.2, point: 0.6, keys: 200 }
    } else {
        Pace { saturate: 0.7, point: 2.0, keys: 300 }
    };
    let time = (pace.saturate * 1e6) as clock::Micros;
    let limiters: Vec<Limiter> =
        choices.limiters.iter().copied().filter(|limiter| !limiter.ideal().is_special()).collect();
    for &limiter in &limiters {
        let mut saturations = Vec::new();
        for load in Load::ALL {
            tell(&format!("cost: {}, {}", limiter.name(), load.says()));
            let mut rounds = Vec::new();
            for _ in 0..choices.rounds {
                rounds.push(cost::saturation(fixture, limiter, load, time).await?);
            }
            saturations.extend(Saturation::middle(rounds));
        }
        into.costs.push(Cost { limiter, saturations, memory: None });
    }
    tell("cost: memory");
    for (cost, memory) in into.costs.iter_mut().zip(cost::memory(fixture, &limiters).await?) {
        cost.memory = Some(memory);
    }
    if choices.limiters.contains(&Limiter::TokenBucket) {
        for buckets in [0, UPKEEP] {
            tell(&format!("cost: the daemon with {buckets} active buckets"));
            let time = Duration::from_secs(if choices.quick { 1 } else { 5 });
            into.upkeep.push(cost::upkeep(fixture, buckets, time).await?);
        }
        into.crossover = Some(cost::crossover(fixture, &pace, choices.quick, tell).await?);
    }
    Ok(())
}

fn about(redis: String, choices: &Choices) -> About {
    let Choices { workers, seed, rounds, .. } = *choices;
    About { seed, rounds, ..About::new(redis, workers, &choices.command) }
}
