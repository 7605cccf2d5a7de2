//! The command line. People use `scripts/bench`, which builds, finds what can be compared, and passes their options on.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::ensure;
use clap::{Args, Parser, Subcommand, ValueEnum, error::ErrorKind};

use crate::{
    child_process,
    limiter::Limiter,
    rules::Rule,
    suite::{self, Curve, Suite},
    worker,
};

#[derive(Debug, Parser)]
#[command(name = "topup-bench", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure
    Run(Box<Choices>),
    /// Put what divan says, on standard input, into the docs
    #[command(hide = true)]
    Micro {
        #[arg(long)]
        docs: Option<PathBuf>,
    },
    /// Ask one limiter, as told
    #[command(hide = true)]
    Worker(Work),
    /// Become a program that ends with its parent
    #[command(hide = true)]
    Child {
        parent: i32,
        #[arg(long)]
        avoid_redis: bool,
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// What to measure, and how long.
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
    /// Only these limiters, and raw; only these suites; of --growth, only these curves
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Of the suite below: what a key may take, of 10/s, 1/s, 100/s and 1/60s
    #[arg(long, value_delimiter = ',')]
    pub(crate) rates: Vec<String>,
    /// Of the suite below: how much of it a key asks for, in %
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shares: Vec<u32>,
    /// Of the suite below: processes that ask
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: Vec<u32>,
    /// Takes a second of the open loops of below and algorithms
    #[arg(long, default_value_t = 10_000.0)]
    pub(crate) offered: f64,
    /// How costs grow, in place of the comparison
    #[arg(long)]
    pub(crate) growth: bool,
    /// The folder to write the tables to
    #[arg(long)]
    pub(crate) docs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) found: Programs,
}

/// What scripts/bench has found or built.
#[derive(Clone, Debug, Args)]
pub(crate) struct Programs {
    /// The daemon
    #[arg(long)]
    pub(crate) topupd: PathBuf,
    /// The Redis module redis-cell
    #[arg(long)]
    pub(crate) redis_cell: Option<PathBuf>,
    /// A Python that has the package limits
    #[arg(long)]
    pub(crate) python: Option<PathBuf>,
    /// A folder whose node_modules hold rate-limiter-flexible
    #[arg(long)]
    pub(crate) node: Option<PathBuf>,
    /// Name and version of something else that is compared
    #[arg(long = "version-of", value_name = "NAME VERSION")]
    pub(crate) versions: Vec<String>,
    /// The folder of the programs in other languages
    #[arg(long)]
    pub(crate) foreign: Option<PathBuf>,
}

/// What a worker process is told.
#[derive(Clone, Debug, Args)]
pub(crate) struct Work {
    #[arg(long)]
    pub(crate) redis: String,
    #[arg(long)]
    pub(crate) limiter: Limiter,
    #[arg(long)]
    pub(crate) rule: Rule,
    #[arg(long)]
    pub(crate) keys: usize,
    #[arg(long, default_value_t = 1)]
    pub(crate) tasks: usize,
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Of an open loop
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Of an open loop: which of its processes this is
    #[arg(long, default_value_t = 0)]
    pub(crate) part: u32,
    /// Of an open loop: how many processes there are
    #[arg(long, default_value_t = 1)]
    pub(crate) parts: u32,
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

    /// Whether suites are measured as a whole: tables of a part of one are for no page.
    pub(crate) fn whole(&self) -> bool {
        let parts = self.rates.is_empty() && self.shares.is_empty() && self.processes.is_empty();
        parts && self.limiters().next().is_none()
    }

    /// Names of `only` that are of no suite.
    fn limiters(&self) -> impl Iterator<Item = &String> {
        let suite = |name: &&String| Suite::value_variants().iter().any(|suite| suite.name() == **name);
        self.only.iter().filter(move |name| !suite(name))
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            // sysexits.h: EX_USAGE.
            return ExitCode::from(if asked { 0 } else { 64 });
        }
    };
    let ended = match cli.command {
        Command::Run(choices) => suite::run(&choices),
        Command::Micro { docs } => suite::micro(docs.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Worker(work) => worker::run(&work).map(|()| ExitCode::SUCCESS),
        Command::Child { parent, avoid_redis, program, args } => {
            child_process::become_program(parent, avoid_redis, &program, &args).map(|never| match never {})
        }
    };
    ended.unwrap_or_else(|error| {
        crate::report::tell(&format!("topup-bench: {error:#}"));
        ExitCode::from(2)
    })
}
