//! The command line. People use `scripts/bench`, which builds, finds the limiters to compare, and passes their options on.

pub(crate) mod choices;
pub(crate) mod programs;
pub(crate) mod rivals;
pub(crate) mod work;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use self::rivals::Rivals;
use crate::{suite, worker};

#[derive(Debug, Parser)]
#[command(name = "topup-bench", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure
    Run(Box<choices::Choices>),
    /// Put the output of divan, on standard input, into the docs
    #[command(hide = true)]
    Micro {
        #[arg(long)]
        docs: Option<PathBuf>,
    },
    /// Ask one limiter
    #[command(hide = true)]
    Worker(work::Work),
}

/// Runs the command line of this process, which has `rivals` built in.
pub fn main(rivals: Rivals) -> ExitCode {
    topup_lab::cli::main(|cli: Cli| match cli.command {
        Command::Run(mut choices) => {
            choices.found.built = rivals.built;
            suite::run(&choices)
        }
        Command::Micro { docs } => suite::growth::micro(docs.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Worker(work) => worker::run(&work, rivals).map(|()| ExitCode::SUCCESS),
    })
}
