//! Runs one target, or all.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use topup_fuzz::target::Target;
use topup_lab::{cli, clock::Stopwatch, output::answer};

/// Feeds mutations of a corpus to parsers.
#[derive(Debug, Parser)]
#[command(name = "topup-fuzz")]
struct Cli {
    /// The target; all of them if none is named
    target: Option<Target>,
    /// Time for each target
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Executions of each target, instead of a time
    #[arg(long)]
    executions: Option<u64>,
    /// Seed of the mutations
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    cli::main(|cli: Cli| {
        let targets = cli.target.map_or(Target::ALL.to_vec(), |target| vec![target]);
        for target in targets {
            let (watch, time) = (Stopwatch::start(), Duration::from_secs(cli.seconds));
            let executions = target.run(cli.seed, |executions| match cli.executions {
                Some(most) => executions < most,
                None => watch.elapsed() < time,
            })?;
            let name = target.name();
            answer(&format!("{name}: {executions} executions in {:.1?}, no crash", watch.elapsed()));
        }
        Ok(ExitCode::SUCCESS)
    })
}
