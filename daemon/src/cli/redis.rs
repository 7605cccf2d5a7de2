//! Shared by the commands that ask Redis: the connection, timeouts, and failures as exit codes.

use std::{path::Path, time::Duration};

use anyhow::{Context, anyhow};
use redis::RedisError;
use tokio::time::timeout;
use topup_wire::{
    connection::{Connection, connect_lazily},
    scripts,
};

use super::{
    args::Connect,
    exit::Exit,
    output::{eprint_line, print_error, print_json_error},
};
use crate::{
    config::{Config, RedisUrl},
    config_source::{ConfigSource, INSTALLED_CONFIG, credential_of_service, default_config},
};

/// The longest that a person at a terminal waits for one answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why a command has no answer.
pub(super) enum Failure {
    /// The arguments do not fit the limit.
    Usage(anyhow::Error),
    /// The config or the URL is wrong. The text is complete.
    Config(String),
    /// Redis gave no answer, for this reason.
    Redis(String),
    /// Redis answers, but what the command needs is not there.
    Undecided(anyhow::Error),
}

/// Runs a command to its exit code. Prints a failure on standard error; with `json` on standard output, where the answer
/// would be.
pub(super) fn run_as(
    json: bool,
    connect: &Connect,
    command: impl Future<Output = Result<Exit, Failure>>,
) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => Err(Failure::Undecided(error.into())),
    };
    result.unwrap_or_else(|failure| match server(connect) {
        Ok(url) => failure.of(&url).print(json),
        Err(_) => failure.print(json),
    })
}

// === impl Failure ===

impl Failure {
    /// The same, with the address of the Redis that gave no answer.
    pub(super) fn of(self, url: &RedisUrl) -> Self {
        match self {
            Self::Redis(reason) => Self::Undecided(anyhow!("Redis {url}: {reason}")),
            failure => failure,
        }
    }

    /// Prints the failure, and returns its exit code.
    pub(super) fn print(self, json: bool) -> Exit {
        let (exit, kind) = match &self {
            Self::Usage(_) => (Exit::Usage, "usage"),
            Self::Config(_) => (Exit::Config, "config"),
            Self::Redis(_) | Self::Undecided(_) => (Exit::Undecided, "undecided"),
        };
        match self {
            Self::Usage(error) | Self::Undecided(error) if json => {
                print_json_error(exit, kind, &format!("{error:#}"));
            }
            Self::Config(problems) | Self::Redis(problems) if json => print_json_error(exit, kind, &problems),
            Self::Usage(error) | Self::Undecided(error) => print_error(&error),
            Self::Config(problems) | Self::Redis(problems) => eprint_line(&problems),
        }
        exit
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error.to_string())
    }
}

/// A connection to the Redis of the command line, the environment, the service or the config.
pub(super) fn connect(args: &Connect) -> Result<Connection, Failure> {
    open(&server(args)?)
}

/// The same, to a Redis whose schema this version knows.
pub(super) async fn connect_checked(args: &Connect) -> Result<Connection, Failure> {
    let mut connection = connect(args)?;
    check_schema(&mut connection).await?;
    Ok(connection)
}

/// A connection to the Redis at `url`, for the keys of its namespace.
pub(super) fn open(url: &RedisUrl) -> Result<Connection, Failure> {
    let connection = connect_lazily(url.as_str()).context("the Redis URL").map_err(wrong)?;
    Ok(connection.in_namespace(url.namespace()))
}

/// The URL of that Redis. Mistakes in limits of the config do not matter.
pub(super) fn server(args: &Connect) -> Result<RedisUrl, Failure> {
    let file = args.config.config.clone();
    let source =
        ConfigSource { file: file.clone().unwrap_or_else(default_config), redis: args.redis.clone() };
    let url = match source.override_url().map_err(wrong)? {
        Some(url) => Some(url),
        // The daemon of this config has the credential.
        None if source.file == Path::new(INSTALLED_CONFIG) => {
            credential_of_service(Path::new("/")).map_err(wrong)?
        }
        None => None,
    };
    let url = match url {
        // A given URL needs no config, and the user may not be allowed to read it.
        Some(url) if file.is_none() => {
            let config = Config::load_without_limits(&source.file).unwrap_or_default();
            url.or_settings_of(&config)
        }
        url => match Config::load_without_limits(&source.file) {
            Ok(config) => url.unwrap_or_else(|| config.redis_url.clone()).or_settings_of(&config),
            Err(problems) if file.is_some() || source.file.exists() => {
                return Err(Failure::Config(problems.to_string()));
            }
            Err(_) => url.unwrap_or_default(),
        },
    };
    Ok(url.with_namespace(args.namespace))
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn wrong(error: anyhow::Error) -> Failure {
    Failure::Config(format!("topupd: {error:#}"))
}

/// Refuses to decide or write where Redis has a schema that this version does not know.
pub(super) async fn check_schema(connection: &mut Connection) -> Result<(), Failure> {
    match ask(scripts::newer_schema(connection)).await? {
        Some(newer) => Err(Failure::Undecided(anyhow!("{newer}: use the topupd of the running daemons"))),
        None => Ok(()),
    }
}

/// The answer of Redis, or a failure after 5 s.
pub(super) async fn ask<T>(request: impl Future<Output = redis::RedisResult<T>>) -> Result<T, Failure> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Failure::Redis(format!(
            "no answer within {REQUEST_TIMEOUT:?}: check that it runs, and is not held up"
        ))),
    }
}
