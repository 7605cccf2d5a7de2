//! The command line of `topup-compare`.

mod advise;
mod args;
#[cfg(test)]
mod help;
mod replay;
mod run;
mod simulate;
mod watch;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use self::{
    advise::Advise,
    args::{Output, Run},
    replay::Replay,
    simulate::Simulate,
    watch::Watch,
};
use crate::worker;

/// Compares rate limiters on one Redis: which is exact, and what does each cost?
///
/// Worker processes send the same traffic to topup's algorithms and to the usual scripts and commands for rate limiting on
/// Redis. The real daemon and the real client of topup run. An exact oracle, fed with the same instants, finds wrong
/// decisions. Redis's own counters tell the costs. A private Redis is started, unless --redis names one.
#[derive(Debug, Parser)]
#[command(name = "topup-compare", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    run: Run,
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
Progress goes to standard error, when that is a terminal; figures go to standard output.

Exit codes:
  0    compared
  2    could not compare
  64   wrong usage
  78   wrong config
  130  ended by Ctrl-C (143 by TERM, 129 by HUP)";

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which algorithm and tick suit each limit of a config, and what it will cost Redis in a day
    ///
    /// Prices are measured first, which takes some twenty seconds.
    Advise(Advise),
    /// Try a limit on traffic that there has been: who would have been denied, and what would it have cost?
    ///
    /// The trace is replayed so much faster that it takes a few seconds. The limit and the daemon's tick are as much faster,
    /// so decisions are those of real time. A tick is 1 ms at least: beyond 100 times as fast, it is longer than in real
    /// time.
    Replay(Replay),
    /// Simulate a limit of the config, or a published one, on traffic that there has been
    ///
    /// Every take of the trace is decided by a model of topup's scripts, by the instants of the trace: exactly, and in
    /// milliseconds. No server is needed for a limit of the config. The first take of each bucket finds it full.
    ///
    /// Each key is decided by its plan, its part and its penalty. A block begins with the take that earned it.
    Simulate(Simulate),
    /// Watch a limit beside a lazy bucket, live: what its workers' takes would have been told by one
    ///
    /// Workers ask a lazy bucket of the same terms about the takes of compare_percent of its keys, and count. The first
    /// line says how things stand, each later one what has come since.
    Watch(Watch),
    /// Show an earlier comparison again, as --json has written it
    Show {
        /// A file that --json has written
        file: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Ask limiters as told on standard input
    #[command(hide = true)]
    Worker,
    /// Run topup's daemon
    #[command(hide = true)]
    Daemon {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Top up counters of rivals as told on standard input
    #[command(hide = true)]
    Refill,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    topup_lab::cli::main(|cli: Cli| match cli.command {
        None => run::compare(&cli.run),
        Some(Command::Advise(args)) => advise::main(&args),
        Some(Command::Show { file, output }) => run::show_again(&file, &output),
        Some(Command::Replay(args)) => replay::main(&args),
        Some(Command::Simulate(args)) => simulate::main(&args),
        Some(Command::Watch(args)) => watch::main(&args),
        Some(Command::Worker) => worker::run().map(|()| ExitCode::SUCCESS),
        Some(Command::Refill) => run::refill(),
        Some(Command::Daemon { args }) => Ok(run::daemon(args)),
    })
}
