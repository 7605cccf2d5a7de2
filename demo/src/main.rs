//! A look at topup at work: a private Redis, `topupd`, four worker processes that ask for more than they may, a change
//! of a rate under load, and a check of what was promised. Start it with `scripts/demo`.

mod budget;
mod change;
mod child;
mod cli;
mod clock;
mod cost;
mod crew;
mod daemon;
mod law;
mod plan;
mod protocol;
mod screen;
mod show;
mod signals;
mod stage;
mod summary;
mod tally;
mod verdict;
mod view;
mod worker;

use std::process::ExitCode;

use cli::{Cli, Command};
use show::Ended;

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        // sysexits.h: EX_USAGE.
        Err(asked) => return ExitCode::from(if asked { 0 } else { 64 }),
    };
    let ended = match cli.command {
        None => show::run(cli.seconds),
        Some(Command::Worker { redis }) => worker::run(&redis).map(|()| Ended::LawsHeld),
        Some(Command::Leash { parent, program, args }) => daemon::leash(parent, &program, &args),
    };
    match ended {
        Ok(Ended::LawsHeld) => ExitCode::SUCCESS,
        Ok(Ended::LawBroken) => ExitCode::from(1),
        Ok(Ended::Signal(signal)) => ExitCode::from(128 + signal),
        Err(error) => {
            screen::complain(&error);
            ExitCode::from(2)
        }
    }
}
