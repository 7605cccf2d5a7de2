//! The options of `scripts/bench`.

use std::{path::PathBuf, time::Duration};

use anyhow::ensure;
use clap::{Args, ValueEnum};

use super::programs::Programs;
use crate::{
    catalog::{Curve, Suite},
    limiter::kind::Limiter,
};

/// Options of a measurement.
#[derive(Clone, Debug, Args)]
pub(crate) struct Choices {
    /// Rounds; each figure is the median of as many
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Seconds for each figure of each round
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// One round of half a second each
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these limiters and raw, or only these suites. With --growth, only these curves
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Rates of a key in the suite below, of 10/s, 1/s, 100/s, 200/s, 30/s and 1/60s
    #[arg(long, value_delimiter = ',')]
    pub(crate) rates: Vec<String>,
    /// Parts of its rate that a key asks for in the suite below, in %
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shares: Vec<u32>,
    /// Processes that ask in the suite below
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: Vec<u32>,
    /// Takes a second of the open loops of below and algorithms
    #[arg(long, default_value_t = 10_000.0)]
    pub(crate) offered: f64,
    /// Redis's setting hz: it looks for expired keys so many times a second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) hz: Option<u32>,
    /// Measure the growth of costs, in place of the comparison
    #[arg(long)]
    pub(crate) growth: bool,
    /// The folder to write the tables to
    #[arg(long)]
    pub(crate) docs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) found: Programs,
}

// === impl Choices ===

impl Choices {
    pub(crate) fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// The options of `scripts/bench` that come to these figures, of so many rounds.
    pub(crate) fn options(&self, rounds: u32) -> String {
        match self.quick {
            true => "--quick".to_owned(),
            false => format!("--rounds {rounds} --seconds {}", self.seconds),
        }
    }

    /// The options of `scripts/bench` that name points of the suite below, each after a space.
    pub(crate) fn points(&self) -> String {
        let numbers = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>();
        let named = [
            ("rates", self.rates.clone()),
            ("shares", numbers(&self.shares)),
            ("processes", numbers(&self.processes)),
        ];
        let named = named.iter().filter(|(_, values)| !values.is_empty());
        named.map(|(name, values)| format!(" --{name} {}", values.join(","))).collect()
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(if self.quick { 0.5 } else { self.seconds.clamp(0.1, 60.0) })
    }

    /// Refuses names of nothing.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.offered > 0.0, "--offered {}: takes a second", self.offered);
        let curves = || Curve::value_variants().iter().map(|curve| curve.name());
        let limiters = Limiter::value_variants().iter().map(|limiter| limiter.name());
        let suites = || Suite::value_variants().iter().map(|suite| suite.name());
        let there_are: Vec<String> =
            if self.growth { curves().collect() } else { suites().chain(limiters).collect() };
        for name in &self.only {
            let named = |other: &String| other == name || other.starts_with(&format!("{name}-"));
            ensure!(there_are.iter().any(named), "--only {name}: there are {}", there_are.join(", "));
        }
        Ok(())
    }

    /// Whether `curve` was asked for.
    pub(crate) fn wants_curve(&self, curve: Curve) -> bool {
        self.only.is_empty() || self.only.contains(&curve.name())
    }

    /// Suites that were asked for; without a word, those that do not take an hour.
    pub(crate) fn suites(&self) -> Vec<Suite> {
        let all = || Suite::value_variants().iter().copied();
        let named: Vec<Suite> = all().filter(|suite| self.only.contains(&suite.name())).collect();
        if named.is_empty() { all().filter(|suite| !suite.is_long()).collect() } else { named }
    }

    /// Whether `limiter` was asked for.
    pub(crate) fn wants(&self, limiter: Limiter) -> bool {
        let named =
            |name: &&String| limiter.name() == **name || limiter.name().starts_with(&format!("{name}-"));
        let mut limiters = self.limiters().peekable();
        limiters.peek().is_none() || limiter == Limiter::Raw || limiters.any(|name| named(&name))
    }

    /// Whether all limiters are measured, on Redis as it comes: other tables are for no page.
    pub(crate) fn whole(&self) -> bool {
        self.hz.is_none() && self.limiters().next().is_none()
    }

    /// Names of `only` that are of no suite.
    fn limiters(&self) -> impl Iterator<Item = &String> {
        let suite = |name: &&String| Suite::value_variants().iter().any(|suite| suite.name() == **name);
        self.only.iter().filter(move |name| !suite(name))
    }
}
