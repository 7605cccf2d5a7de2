//! The command line of `topupd`: parses the arguments and runs one command.

mod args;
mod bucket;
mod check;
mod exit;
mod output;
mod ownership;
mod redis;
mod remove;
mod report;
mod run;
mod status;
mod status_text;
mod throttle;

use std::ffi::OsString;

use args::{Cli, Command};
use clap::{Parser, error::ErrorKind};

pub use exit::Exit;

/// Runs the command line `args`, and returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            return if is_help { Exit::Done } else { Exit::Usage };
        }
    };
    match cli.command {
        Command::Run(args) => run::main(args),
        Command::Check(args) => check::main(args),
        Command::Take(args) => bucket::take(&args),
        Command::Peek(args) => bucket::peek(&args),
        Command::Reset(args) => bucket::reset(&args),
        Command::Throttle(args) => throttle::main(&args),
        Command::Remove(args) => remove::main(&args),
        Command::Status(args) => status::main(&args),
    }
}
