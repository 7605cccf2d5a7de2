//! The config file, and the Redis URLs that override the one in it.

use std::{env, fs, path::PathBuf};

use anyhow::Context;

use crate::config::{Config, Problems, RedisUrl};

/// The environment variable that names the Redis.
pub const URL_VARIABLE: &str = "TOPUP_REDIS_URL";

/// The config file, and a Redis URL that overrides all others.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// The config file.
    pub file: PathBuf,
    /// The Redis given on the command line, or the embedded one.
    pub redis: Option<RedisUrl>,
}

// === impl ConfigSource ===

impl ConfigSource {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn load(&self) -> Result<Config, Problems> {
        Config::load(&self.file)
    }

    /// The Redis to use: the first of command line, `TOPUP_REDIS_URL`, systemd credential `redis-url` and config.
    ///
    /// # Errors
    /// If the first of these that is present is not the URL of a Redis.
    pub fn redis_url(&self, config: &Config) -> anyhow::Result<RedisUrl> {
        let url = self.override_url()?;
        Ok(url.as_ref().unwrap_or(&config.redis_url).with_tls_files(&config.tls_files))
    }

    /// The Redis URL that overrides the one in the config; `None` if there is none.
    ///
    /// # Errors
    /// As [`redis_url`](Self::redis_url).
    pub fn override_url(&self) -> anyhow::Result<Option<RedisUrl>> {
        if let Some(url) = &self.redis {
            return Ok(Some(url.clone()));
        }
        if let Some(text) = env::var(URL_VARIABLE).ok().filter(|text| !text.is_empty()) {
            return text.parse().map(Some).context(URL_VARIABLE);
        }
        let credential =
            env::var_os("CREDENTIALS_DIRECTORY").map(|folder| PathBuf::from(folder).join("redis-url"));
        if let Some(path) = credential.filter(|path| path.exists()) {
            let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
            return text.trim().parse().map(Some).context("the credential redis-url");
        }
        Ok(None)
    }
}

/// The config file when none is named: `config.toml` in this folder, or else `/etc/topup/config.toml`.
pub fn default_config() -> PathBuf {
    let here = PathBuf::from("config.toml");
    if here.exists() { here } else { PathBuf::from("/etc/topup/config.toml") }
}
