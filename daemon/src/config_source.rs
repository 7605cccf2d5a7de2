//! The config file, and the Redis URLs that override the one in it.

use std::{
    env,
    fs::{self, File},
    path::{self, Path, PathBuf},
};

use anyhow::Context;
use topup_wire::claims::Owner;

use crate::config::{Config, ConfigFiles, Problems, RedisUrl};

/// The environment variable that names the Redis.
pub const URL_VARIABLE: &str = "TOPUP_REDIS_URL";
/// The config file of the installed service.
pub const INSTALLED_CONFIG: &str = "/etc/topup/config.toml";
/// The credential of the installed service, as it has it and as systemd finds it. `systemd/topupd.service` names it.
const CREDENTIAL_FILES: [&str; 4] = [
    "run/credentials/topupd.service/redis-url",
    "etc/credstore/topup.redis-url",
    "run/credstore/topup.redis-url",
    "usr/lib/credstore/topup.redis-url",
];

/// The config file, and a Redis URL that overrides all others.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// The config file.
    pub file: PathBuf,
    /// The Redis given on the command line, or the embedded one.
    pub redis: Option<RedisUrl>,
}

/// The config that a daemon starts with.
#[derive(Clone, Debug)]
pub struct LoadedFiles {
    /// The files as they were read.
    pub files: ConfigFiles,
    /// Their config, or as much of it as names the Redis.
    pub config: Config,
    /// The problems of the files, if they are refused.
    pub refused: Option<Problems>,
}

// === impl ConfigSource ===

impl ConfigSource {
    /// Reads the file, and those that it includes.
    pub fn read(&self) -> ConfigFiles {
        ConfigFiles::read(&self.file)
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
        Ok(url.or_settings_of(config))
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
        credential.filter(|path| path.exists()).map(|path| read_credential(&path)).transpose()
    }
}

/// The Redis URL in the credential of the installed service, below the folder `root`; `None` if there is none that this
/// user may read.
///
/// # Errors
/// If the credential is not the URL of a Redis.
pub fn credential_of_service(root: &Path) -> anyhow::Result<Option<RedisUrl>> {
    let paths = CREDENTIAL_FILES.map(|file| root.join(file));
    let path = paths.iter().find(|path| File::open(path).is_ok());
    path.map(|path| read_credential(path)).transpose()
}

fn read_credential(path: &Path) -> anyhow::Result<RedisUrl> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    text.trim().parse().context("the credential redis-url")
}

/// The config file when none is named. A file that happens to lie in the current folder is never used.
pub fn default_config() -> PathBuf {
    INSTALLED_CONFIG.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credential_of_the_service_is_found_where_systemd_keeps_it() {
        let root = tempfile::tempdir().unwrap();
        let found = || credential_of_service(root.path()).map(|url| url.map(|url| url.as_str().to_owned()));
        assert_eq!(found().unwrap(), None);
        // Each place goes before the ones behind it.
        for (number, file) in CREDENTIAL_FILES.iter().enumerate().rev() {
            let (path, url) = (root.path().join(file), format!("redis://:secret@host{number}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("{url}\n")).unwrap();
            assert_eq!(found().unwrap(), Some(url));
        }
        fs::write(root.path().join(CREDENTIAL_FILES[0]), "http://:secret@there").unwrap();
        let error = format!("{:#}", found().unwrap_err());
        assert!(
            error.contains("the credential redis-url: not a Redis URL") && !error.contains("secret"),
            "{error}"
        );
    }
}
