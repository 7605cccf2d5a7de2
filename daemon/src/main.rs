//! The topup daemon, and commands to look at what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    topup_daemon::cli::main(std::env::args_os()).into()
}
