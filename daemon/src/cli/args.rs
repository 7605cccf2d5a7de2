//! The arguments of the command line, and the texts of its help.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use topup_wire::{limit::LimitName, namespace::Namespace};

use super::{
    assign::{Assign, Explain, Unassign},
    import::{Export, Import},
    limits::Limits,
    pause::{Pause, Resume},
    plan::Plan,
    reload::Reload,
    schema::Schema,
    set::{Drain, Set},
    top::Top,
};
use crate::{
    config::{RedisUrl, RedisUrlError},
    config_source::URL_VARIABLE,
};

/// Keeps token buckets in Redis topped up.
///
/// A config file names the limits. Workers link the client crate and take tokens from the buckets of these limits.
/// `topupd run` is the service. The other commands check a config, or look at published limits and take by hand.
#[derive(Debug, Parser)]
#[command(name = "topupd", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Environment:
  TOPUP_REDIS_URL  URL of the Redis; overrides the systemd credential redis-url and redis.url of the config
  TOPUP_LOG        Least level to log: error, warn, info (default), debug, trace
  NO_COLOR         No colours, even on a terminal

Errors:
  With --json, an error is on standard output, where the answer would be:
  {\"error\": {\"kind\": \"usage\" | \"config\" | \"undecided\", \"exit_code\": N, \"message\": \"...\"}}

Exit codes:
  0   done, or the take was allowed; of status: all is well
  1   the take was denied
  2   no decision: Redis is away or refuses, no such limit is published, or a live daemon has the limit to remove
  3   of status: nothing is published
  4   of status: no daemon is alive, and workers go on without
  5   of status: something needs a look
  6   of plan: the reload would change something, or refuse a limit
  64  wrong usage
  78  wrong config";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the daemon: publish the limits of the config and keep their buckets topped up
    ///
    /// TERM and INT end the daemon within a second, and a second one ends it at once. HUP reads the config again. A
    /// file with a mistake is refused as a whole. USR1 logs the status in one line. Any number of daemons may serve one
    /// Redis.
    Run(Run),
    /// Check a config file, and print every problem with its line
    Check(Check),
    /// Tell what a reload with a config file would change, and change nothing
    ///
    /// Only reads from Redis. Compares the file with what is published, whether a daemon runs or not. Exits with 6 if
    /// anything would change or be refused. While Redis is away, it tells what the file alone shows, and exits with 2.
    Plan(Plan),
    /// Print a JSON Schema of the config, with which editors complete and check
    Schema(Schema),
    /// Take tokens from a bucket, all or nothing
    Take(Take),
    /// Print the answer that a take of one token would get, and take nothing
    #[command(after_help = "Examples:\n  topupd peek api\n  topupd peek user --key alice --json")]
    Peek(Bucket),
    /// Fill a bucket
    #[command(after_help = "Example:\n  topupd reset user --key alice")]
    Reset(Bucket),
    /// Answer like CL.THROTTLE of the Redis module redis-cell: five whole numbers, one on each line
    ///
    /// The numbers are: 1 if limited, else 0. The most at once, MAX_BURST + 1. The number left now. Seconds until the
    /// same request is allowed, or -1 if it was. Seconds until the most is left again. The module answers if Redis has
    /// it, or else a script of topup. No limit needs to be published.
    Throttle(Throttle),
    /// List the published limits
    Limits(Limits),
    /// Set the tokens of a bucket
    ///
    /// Tokens that are too many are taken, and those that are missing are put back. Traffic goes on beside it, and tokens
    /// that workers have in hand stay theirs.
    Set(Set),
    /// Empty a bucket
    Drain(Drain),
    /// Pause a limit, or one key of it, in all workers
    ///
    /// Workers obey within a quarter of a second. Takes are denied until the end, and waits wait. A longer pause stays as
    /// it is. It holds whether a daemon runs or not.
    Pause(Pause),
    /// End a pause
    Resume(Resume),
    /// Assign a key to a plan, or to exempt or deny
    ///
    /// It goes before what the config says of the key, and is in force 1.25 s later in all workers at once. Tokens stay
    /// as the limit's on_change says.
    Assign(Assign),
    /// Take the assignment of a key by hand back
    Unassign(Unassign),
    /// Tell the plan of a key, and why
    Explain(Explain),
    /// Replace all assignments of a limit by those of a file
    ///
    /// If any row is wrong, all wrong rows are named and nothing changes. The change is in force at one instant.
    Import(Import),
    /// Print all assignments of a limit by hand
    Export(Export),
    /// Have the daemons of this host read their config again, and tell whether they applied it
    ///
    /// Names the problems of a config that is refused, and ends with 78 then. The config before stays in force.
    Reload(Reload),
    /// Remove a published limit that no live daemon has in its config
    ///
    /// The limit goes with all its buckets. If a live daemon has the limit in its config, only the claims of configs
    /// without a live daemon end. The live daemon then takes the limit over.
    Remove(Remove),
    /// Show whether all is well, the live daemons, and the published limits with their active buckets
    ///
    /// The answer comes within 2 s whatever state Redis is in. It names each problem and what to do about it, and the
    /// exit code tells the worst one.
    Status(Status),
    /// Show limits, daemons and problems live in the terminal
    ///
    /// Where standard output is no terminal, one plain table is printed instead.
    Top(Top),
    /// Print the Redis users of workers, daemons and viewers, each with the rights it needs
    ///
    /// One command on each line, for redis-cli. A user has no password yet, so nobody can sign in as it:
    /// ACL SETUSER topup-worker '>PASSWORD'. Redis 7.0 or newer.
    Acl(Acl),
    /// Print the manual page, for man(1)
    Man(Man),
    /// Print the completions of a shell
    ///
    /// For bash: topupd completions bash > ~/.local/share/bash-completion/completions/topupd
    Completions(Completions),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd acl | redis-cli")]
pub(super) struct Acl {
    /// Namespace of the keys [default: topup]
    #[arg(long)]
    pub(super) namespace: Option<Namespace>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  topupd run --config config.toml\n  topupd run --config config.toml --embedded"
)]
pub(super) struct Run {
    #[command(flatten)]
    pub(crate) config: ConfigFile,
    /// Start a private redis-server for this daemon, and end it with the daemon; it keeps no data
    #[arg(long)]
    pub(crate) embedded: bool,
    /// Limits to take over from other configs of which no daemon is alive, separated by commas
    ///
    /// A limit that another config has published with other terms is refused otherwise, and stays as it is.
    #[arg(long, value_name = "LIMIT", value_delimiter = ',')]
    pub(crate) take_over: Vec<LimitName>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd check
  topupd check new.toml
  topupd check --config new.toml --json")]
pub(super) struct Check {
    /// The config file, as with --config
    #[arg(conflicts_with = "config")]
    pub(crate) file: Option<PathBuf>,
    /// Answer in JSON, problems too
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) config: ConfigFile,
}

#[derive(Debug, Args)]
pub(super) struct ConfigFile {
    /// The config file [default: /etc/topup/config.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The Redis to ask.
#[derive(Debug, Args)]
pub(super) struct Connect {
    /// URL of the Redis: redis://[user:password@]host[:port][/db], rediss:// for TLS, or unix:///path
    ///
    /// For a cluster, one node or several: redis://host:port,host:port
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub(crate) redis: Option<RedisUrl>,
    /// Namespace of the keys [default: that of the URL, else of the config, else topup]
    #[arg(long)]
    pub(crate) namespace: Option<Namespace>,
    #[command(flatten)]
    pub(crate) config: ConfigFile,
}

#[derive(Debug, Args)]
pub(super) struct Bucket {
    /// The limit, as in [limit.NAME] of the config
    pub(crate) limit: String,
    /// The key of the bucket, for keyed limits
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  topupd take api\n  topupd take user --key alice --count 5 --wait 2s")]
pub(super) struct Take {
    #[command(flatten)]
    pub(crate) bucket: Bucket,
    /// The number of tokens
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 53))]
    pub(crate) count: u64,
    /// Wait for the tokens, at most this long: 500ms, 2s, 1min
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd throttle alice 9 10 1")]
pub(super) struct Throttle {
    /// The key of the caller: 1 to 256 bytes
    pub(crate) key: String,
    /// The most at once, less one
    pub(crate) max_burst: u64,
    /// The number that comes back in each PERIOD
    pub(crate) count: u64,
    /// The period in seconds
    pub(crate) period: u64,
    /// The number to take; 0 only looks
    #[arg(default_value_t = 1)]
    pub(crate) quantity: u64,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd remove old")]
pub(super) struct Remove {
    /// The limit, as in [limit.NAME] of the config
    pub(crate) limit: LimitName,
    /// Remove it even if a live daemon has it in its config; that daemon publishes it again, with full buckets
    #[arg(long)]
    pub(crate) force: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  topupd status\n  topupd status --json | jq .health")]
pub(super) struct Status {
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd man | man -l -")]
pub(super) struct Man {
    /// Write a page for each command into this folder instead
    #[arg(long, value_name = "FOLDER")]
    pub(super) folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  topupd completions bash > ~/.local/share/bash-completion/completions/topupd"
)]
pub(super) struct Completions {
    /// The shell
    pub(super) shell: Shell,
}

fn parse_url(text: &str) -> Result<RedisUrl, String> {
    text.parse().map_err(|error: RedisUrlError| format!("{error} (or set {URL_VARIABLE})"))
}

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}: write a number and a unit, such as 500ms or 2s"))
}
