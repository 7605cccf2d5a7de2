//! The beginning and the end of every program.

use std::process::ExitCode;

use clap::{Parser, error::ErrorKind};

use crate::output::tell;

/// `sysexits.h`: `EX_USAGE`.
const USAGE: u8 = 64;
/// The program could not do its work.
const FAILED: u8 = 2;

/// Reads the command line and runs `program`; the exit code. Wrong usage is 64, an error of `program` 2.
pub fn main<Cli: Parser>(program: impl FnOnce(Cli) -> anyhow::Result<ExitCode>) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            return ExitCode::from(if asked { 0 } else { USAGE });
        }
    };
    program(cli).unwrap_or_else(|error| {
        tell(&format!("{}: {error:#}", Cli::command().get_name()));
        ExitCode::from(FAILED)
    })
}
