//! Where the config and the Redis URL come from.

use std::{env, fs, path::PathBuf};

use anyhow::Context;

use crate::config::{Config, Problems, RedisUrl};

/// Names the Redis, before the credential and the config.
pub const URL_VARIABLE: &str = "TOPUP_REDIS_URL";

/// The config file, and what overrides the Redis it names.
#[derive(Clone, Debug)]
pub struct Source {
    /// The config file.
    pub file: PathBuf,
    /// The Redis given on the command line or embedded.
    pub redis: Option<RedisUrl>,
}

// === impl Source ===

impl Source {
    /// The config as the file says now.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn load(&self) -> Result<Config, Problems> {
        Config::load(&self.file)
    }

    /// The Redis to use: from the command line, `TOPUP_REDIS_URL`, the systemd credential `redis-url`, or the config.
    ///
    /// # Errors
    /// When the first of these that is there is not the URL of a Redis.
    pub fn redis_url(&self, config: &Config) -> anyhow::Result<RedisUrl> {
        Ok(self.given_redis_url()?.unwrap_or_else(|| config.redis_url.clone()))
    }

    /// The same without the config; `None` when it is for the config to say.
    ///
    /// # Errors
    /// As [`redis_url`](Self::redis_url).
    pub fn given_redis_url(&self) -> anyhow::Result<Option<RedisUrl>> {
        if let Some(given) = &self.redis {
            return Ok(Some(given.clone()));
        }
        if let Some(given) = env::var(URL_VARIABLE).ok().filter(|given| !given.is_empty()) {
            return given.parse().map(Some).context(URL_VARIABLE);
        }
        let credential =
            env::var_os("CREDENTIALS_DIRECTORY").map(|folder| PathBuf::from(folder).join("redis-url"));
        if let Some(path) = credential.filter(|path| path.exists()) {
            let given = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
            return given.trim().parse().map(Some).context("the credential redis-url");
        }
        Ok(None)
    }
}
