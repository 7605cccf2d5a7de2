//! The command line of `topupd`.

mod bucket;
mod check;
mod exit;
mod run;
mod status;
mod throttle;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, error::ErrorKind};

pub use exit::Exit;

use crate::{config::RedisUrl, source::URL_VARIABLE};

/// Keeps token buckets in Redis topped up.
///
/// Limits are named in a config file; workers link the client crate and take from them. `topupd run` is the service,
/// the other commands look at limits or take from them by hand.
#[derive(Debug, Parser)]
#[command(name = "topupd", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Environment:
  TOPUP_REDIS_URL  The Redis to use, before the systemd credential redis-url and redis.url of the config
  TOPUP_LOG        What to log: error, warn, info (default), debug, trace
  NO_COLOR         No colours, even on a terminal

Exit codes:
  0   done; the take was allowed
  1   the take was denied
  2   could not decide: Redis is away, or no such limit is published
  64  wrong usage
  78  wrong config";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon: publish the limits of the config and keep their buckets topped up
    ///
    /// Signals: TERM and INT end it within a second, a second one at once; HUP reads the config again (a bad one is
    /// refused as a whole); USR1 logs a line on how it is going. Any number of daemons may run on one Redis.
    Run(Run),
    /// Check a config file, and say all that is wrong with it
    Check(Check),
    /// Take tokens from a bucket, all or nothing
    Take(Take),
    /// Say what a take would be told, and take nothing
    Peek(Peek),
    /// Fill a bucket
    Reset(Reset),
    /// Answer as CL.THROTTLE of the Redis module redis-cell does: five whole numbers, one on each line
    ///
    /// 1 when limited, else 0; the most at once (MAX_BURST + 1); how many more could be had now; seconds until the same
    /// would be allowed, -1 when it was; seconds until all could be had. By the module where Redis has it, else by a
    /// script of topup's. No limit has to be published.
    Throttle(Throttle),
    /// Show what is published: limits, active buckets, daemons
    Status(Status),
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    config: ConfigFile,
    /// Start a private redis-server for this daemon alone and end it with the daemon; nothing is kept
    #[arg(long)]
    embedded: bool,
}

#[derive(Debug, Args)]
struct Check {
    #[command(flatten)]
    config: ConfigFile,
}

#[derive(Debug, Args)]
struct ConfigFile {
    /// The config file [default: ./config.toml if there is one, else /etc/topup/config.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Which Redis to ask.
#[derive(Debug, Args)]
struct Connect {
    /// The Redis to ask: redis://[user:password@]host[:port][/db], a node of a cluster or several
    /// (redis://host:port,host:port), or unix:///path
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    redis: Option<RedisUrl>,
    #[command(flatten)]
    config: ConfigFile,
}

#[derive(Debug, Args)]
struct Bucket {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// Whose bucket, for keyed limits
    #[arg(long)]
    key: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
struct Take {
    #[command(flatten)]
    bucket: Bucket,
    /// How many tokens
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 53))]
    count: u64,
    /// Wait for the tokens, for so long at most: 500ms, 2s, 1min
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
}

#[derive(Debug, Args)]
struct Peek {
    #[command(flatten)]
    bucket: Bucket,
}

#[derive(Debug, Args)]
struct Reset {
    #[command(flatten)]
    bucket: Bucket,
}

#[derive(Debug, Args)]
struct Throttle {
    /// Who asks: 1 to 256 bytes
    key: String,
    /// How many more than one may be had at once
    max_burst: u64,
    /// How many may be had every PERIOD
    count: u64,
    /// Seconds
    period: u64,
    /// How many are asked for; 0 to look only
    #[arg(default_value_t = 1)]
    quantity: u64,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, Args)]
struct Status {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Runs the command line `args`: the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            return if asked { Exit::Done } else { Exit::Usage };
        }
    };
    match cli.command {
        Command::Run(args) => run::main(args),
        Command::Check(args) => check::main(args),
        Command::Take(args) => bucket::take(&args),
        Command::Peek(args) => bucket::peek(&args),
        Command::Reset(args) => bucket::reset(&args),
        Command::Throttle(args) => throttle::main(&args),
        Command::Status(args) => status::main(&args),
    }
}

fn parse_url(text: &str) -> Result<RedisUrl, String> {
    text.parse()
        .map_err(|error: crate::config::RedisUrlError| format!("{error} ({URL_VARIABLE} may hold it too)"))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}: write a number and a unit, such as 500ms or 2s"))
}
