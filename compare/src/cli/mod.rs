//! The command line of `topup-compare`.

mod advise;
#[cfg(test)]
mod help;
mod replay;
mod run;
mod simulate;
mod watch;

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand};
use topup_wire::limit::{Capacity, Rate};

use crate::{limiter::Limiter, worker};

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

/// Where.
#[derive(Clone, Debug, Args)]
struct Where {
    /// The Redis to use, with an empty database: redis://[user:password@]host[:port][/db] or unix:///path
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Use that database although it is not empty. Only keys of the comparison's own are written and removed
    #[arg(long, requires = "redis")]
    shared: bool,
}

/// How thoroughly.
#[derive(Clone, Debug, Args)]
struct Run {
    #[command(flatten)]
    place: Where,
    /// End within a minute: fewer traffics, less time for each
    #[arg(long)]
    quick: bool,
    /// Only these limiters
    #[arg(long, value_name = "LIMITER", value_delimiter = ',')]
    only: Vec<Limiter>,
    /// Only these traffics
    #[arg(long, value_name = "TRAFFIC", value_delimiter = ',')]
    traffic: Vec<String>,
    /// Draw what is drawn at random from this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Play each traffic so often: figures are then the median, with the smallest and the largest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Leave costs out: accuracy only
    #[arg(long)]
    no_costs: bool,
    #[command(flatten)]
    output: Output,
}

/// In what form.
#[derive(Clone, Debug, Args)]
struct Output {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Write a page for the browser there
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A trace, and a limit to try on it.
#[derive(Clone, Debug, Args)]
struct Replay {
    #[command(flatten)]
    place: Where,
    /// The trace: CSV with time,key,count, or a web server's access log in the combined format
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The most tokens of a bucket, or in a window
    #[arg(long, value_name = "N")]
    #[arg(value_parser = capacity)]
    capacity: Capacity,
    /// The rate at which they come, such as 50/s, 1/60s, 10/min
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Replay so much faster that it takes this long with each limiter
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Only these limiters [default: topup's, and the lazy bucket as usually written]
    #[arg(long, value_name = "LIMITER", value_delimiter = ',')]
    only: Vec<Limiter>,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    #[command(flatten)]
    output: Output,
}

/// A config, and how it is asked.
#[derive(Clone, Debug, Args)]
struct Advise {
    #[command(flatten)]
    place: Where,
    /// The daemon's config
    #[arg(long, value_name = "FILE", default_value = "config.toml")]
    config: PathBuf,
    /// A trace of its load: CSV with time,key,count, or a web server's access log in the combined format
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The limit that is asked so, where the config has several
    #[arg(long, value_name = "NAME", requires = "trace")]
    limit: Option<String>,
    /// Find the smallest capacity and rate that deny at most so many percent of the takes in the trace
    ///
    /// A bucket fills in the same time as now.
    #[arg(long, value_name = "PERCENT", requires = "trace", value_parser = percent)]
    deny: Option<f64>,
    /// Print a patch of the config that does as advised for the limit of the trace; comments stay
    #[arg(long, requires = "trace", conflicts_with = "json")]
    emit: bool,
    /// Worker processes, to measure prices with
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// A limit, and a trace to try it on.
#[derive(Clone, Debug, Args)]
struct Simulate {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The trace: CSV with time,key,count, or a web server's access log in the combined format
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The daemon's config
    #[arg(long, value_name = "FILE", default_value = "config.toml")]
    config: PathBuf,
    /// Take the limit as published in this Redis, instead of the config
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    redis: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// A limit whose takes are compared while it runs.
#[derive(Clone, Debug, Args)]
struct Watch {
    /// The limit, as in [limit.NAME] of the daemon's config, with compare_percent above 0
    limit: String,
    /// The Redis of the daemon [default: TOPUP_REDIS_URL, else redis://127.0.0.1:6379]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Time between two looks: 500ms, 2s, 1min
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = every)]
    every: Duration,
    /// End after so many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
    /// Answer in JSON, an object a line
    #[arg(long)]
    json: bool,
}

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

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
    percent.ok_or_else(|| "write a number from 0 to below 100, such as 1 or 0.1".to_owned())
}

fn every(text: &str) -> Result<Duration, String> {
    let every = humantime::parse_duration(text);
    let every = every.map_err(|error| format!("{error}: write a number and a unit, such as 500ms or 2s"))?;
    if every < Duration::from_millis(10) { Err("10ms at least".to_owned()) } else { Ok(every) }
}

fn capacity(text: &str) -> Result<Capacity, String> {
    let tokens = text.parse().map_err(|_| "a capacity is a whole number of tokens")?;
    Capacity::new(tokens).map_err(|error| error.to_string())
}
