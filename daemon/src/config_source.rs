//! The config file, and the Redis URLs that override the one in it.

use std::{
    env, fs,
    path::{self, PathBuf},
};

use anyhow::Context;
use topup_wire::claims::Owner;

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

    /// Reads what the file says of Redis, whatever it says of limits. A Redis URL that overrides the file's needs no file.
    ///
    /// # Errors
    /// The problems of the file, if they hide which Redis it means.
    pub fn load_without_limits(&self) -> Result<Config, Problems> {
        match Config::load_without_limits(&self.file) {
            Err(_) if self.override_url().is_ok_and(|url| url.is_some()) => Ok(Config::default()),
            read => read,
        }
    }

    /// The name of `config`: the one that it gives, or else the path of the file. Symbolic links stay as they are: where
    /// each new version of a file gets a folder of its own, only the link keeps its path.
    pub fn owner(&self, config: &Config) -> Owner {
        let of_file = || Owner::of_file(&path::absolute(&self.file).unwrap_or_else(|_| self.file.clone()));
        config.name.clone().unwrap_or_else(of_file)
    }

    /// The Redis to use: the first of command line, `TOPUP_REDIS_URL`, systemd credential `redis-url` and config. The
    /// namespace is that of the config, unless the URL names one.
    ///
    /// # Errors
    /// If the first of these that is present is not the URL of a Redis.
    pub fn redis_url(&self, config: &Config) -> anyhow::Result<RedisUrl> {
        let url = self.override_url()?.unwrap_or_else(|| config.redis_url.clone());
        Ok(url.or_namespace(config.redis_url.named_namespace()))
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

/// The config file when none is named. A file that happens to lie in the current folder is never used.
pub fn default_config() -> PathBuf {
    PathBuf::from("/etc/topup/config.toml")
}
