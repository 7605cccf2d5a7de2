//! Shared by the commands that ask Redis: the connection, timeouts, and failures as exit codes.

use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::time::timeout;
use topup_wire::connection::{Connection, connect_lazily};

use super::{
    args::Connect,
    exit::Exit,
    output::{eprint_line, print_error},
};
use crate::config_source::{ConfigSource, default_config};

/// The longest that a person at a terminal waits for one answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why a command has no answer.
pub(super) enum Failure {
    /// The arguments do not fit the limit.
    Usage(anyhow::Error),
    /// The config or the URL is wrong. The text is complete.
    Config(String),
    /// Redis gave no answer.
    Undecided(anyhow::Error),
}

/// Runs a command to its exit code. Prints a failure on standard error.
pub(super) fn run(command: impl Future<Output = Result<Exit, Failure>>) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => Err(Failure::Undecided(error.into())),
    };
    match result {
        Ok(exit) => exit,
        Err(Failure::Usage(error)) => {
            print_error(&error);
            Exit::Usage
        }
        Err(Failure::Config(problems)) => {
            eprint_line(&problems);
            Exit::Config
        }
        Err(Failure::Undecided(error)) => {
            print_error(&error);
            Exit::Undecided
        }
    }
}

/// A connection to the Redis of the command line, the environment or the config.
pub(super) fn connect(args: &Connect) -> Result<Connection, Failure> {
    let file = args.config.config.clone();
    let source =
        ConfigSource { file: file.clone().unwrap_or_else(default_config), redis: args.redis.clone() };
    let wrong = |error: anyhow::Error| Failure::Config(format!("topupd: {error:#}"));
    let url = match source.override_url().map_err(wrong)? {
        // The config is not needed then, and its reader may not be allowed to read it.
        Some(url) if file.is_none() => url,
        url => match source.load() {
            Ok(config) => url.unwrap_or(config.redis_url).with_tls_files(&config.tls_files),
            Err(problems) if file.is_some() || source.file.exists() => {
                return Err(Failure::Config(problems.to_string()));
            }
            Err(_) => url.unwrap_or_default(),
        },
    };
    connect_lazily(url.as_str()).context("the Redis URL").map_err(wrong)
}

/// The answer of Redis, or a failure after 5 s.
pub(super) async fn ask<T>(request: impl Future<Output = redis::RedisResult<T>>) -> Result<T, Failure> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Failure::Undecided(anyhow::Error::new(error).context("Redis"))),
        Err(_) => Err(Failure::Undecided(anyhow!(
            "Redis did not answer within {REQUEST_TIMEOUT:?}: check its URL and that it runs"
        ))),
    }
}
