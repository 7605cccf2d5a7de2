//! topup at work: a private Redis, `topupd`, and four worker processes that ask for more than they may. A rate changes under
//! load, and the laws are checked. Start it with `scripts/demo`.

mod change;
mod cli;
mod figures;
mod frame;
mod law;
mod plan;
mod protocol;
mod record;
mod run;
mod screen;
mod verdict;
mod worker;

use std::process::ExitCode;

use cli::{Cli, Command};

fn main() -> ExitCode {
    topup_lab::cli::main(|cli: Cli| match cli.command {
        None => run::run(cli.seconds),
        Some(Command::Worker { redis }) => worker::run(&redis).map(|()| ExitCode::SUCCESS),
    })
}
