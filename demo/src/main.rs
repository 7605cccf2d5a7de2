//! topup at work: a private Redis, `topupd`, four worker processes that ask for more than they may, a change of a rate
//! under load, and a check of the laws. Start it with `scripts/demo`.

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
