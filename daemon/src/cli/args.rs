//! The arguments of commands, and the texts of their help.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use clap_complete::Shell;
use topup_wire::{limit::LimitName, namespace::Namespace};

use crate::{
    config::{RedisUrl, RedisUrlError},
    config_source::URL_VARIABLE,
};

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
    /// Limits to take over from other configs without a live daemon, separated by commas
    ///
    /// Without this, a limit that another config has published with other terms is refused, and stays as it is.
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
    /// Answer in JSON, also about problems
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

/// A question to Redis, and the form of its answer.
#[derive(Debug, Args)]
pub(super) struct Query {
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

#[derive(Debug, Args)]
pub(super) struct Bucket {
    /// The limit, as in [limit.NAME] of the config
    pub(crate) limit: String,
    /// The key of the bucket, for keyed limits
    #[arg(long)]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) query: Query,
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
    /// One less than the most requests at once
    pub(crate) max_burst: u64,
    /// The number of requests that come back in each PERIOD
    pub(crate) count: u64,
    /// The period in seconds
    pub(crate) period: u64,
    /// The number to take; 0 only looks
    #[arg(default_value_t = 1)]
    pub(crate) quantity: u64,
    #[command(flatten)]
    pub(crate) query: Query,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd remove old")]
pub(super) struct Remove {
    /// The limit, as in [limit.NAME] of the config
    pub(crate) limit: LimitName,
    /// Remove it even if a live daemon has it in its config; that daemon publishes it again, with full buckets
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) query: Query,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  topupd status\n  topupd status --json | jq .health")]
pub(super) struct Status {
    #[command(flatten)]
    pub(crate) query: Query,
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
