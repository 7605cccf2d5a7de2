//! The config: text, then raw tables, then checked limits. Only this module knows TOML.
//!
//! [`Config::load`] reports all problems of a file at once, each on one line with its location, the mistake and the
//! fix. This module reads no clock. It reads the environment for `${NAME}` alone.
//!
//! `files` reads the texts, `parse` puts their limits together.
//! `syntax` parses the text, `raw_table`, `raw_values` and `raw_limit` read its keys, `check_limit` applies the rules
//! between keys.

mod admin;
mod advice;
mod candidate;
mod check_algorithm;
mod check_limit;
mod check_parts;
mod config_key;
mod diagnostics;
mod effective;
mod files;
mod instant;
mod keys;
mod limit;
mod limit_keys;
mod limit_tables;
mod parse;
mod parts;
mod permits;
mod plans;
mod problem;
mod raw_children;
mod raw_limit;
mod raw_table;
mod raw_values;
mod redis_url;
mod reference;
mod schema;
mod source;
mod sql_url;
mod syntax;
#[cfg(test)]
mod tests;
mod times;
mod variables;
mod warnings;
mod windows;

use std::{collections::BTreeMap, path::Path, time::Duration};

use topup_wire::{claims::Owner, limit::LimitName};

pub use admin::{AdminConfig, Listen};
pub use candidate::Candidate;
pub use effective::EffectiveTerms;
pub use files::ConfigFiles;
pub use instant::{Instant, InstantError};
pub use limit::{LimitConfig, ScheduleEntry, SupplyConfig};
pub use plans::PlanConfig;
pub use problem::{Problem, Problems};
pub use redis_url::{RedisUrl, RedisUrlError};
pub use reference::reference;
pub use schema::schema;
pub use source::{SourceConfig, SourcePlace};
pub use sql_url::{SqlUrl, SqlUrlError};
pub use times::{MAX_TICK, MIN_TICK};

/// A checked config.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The name of the config; [`ConfigSource::owner`](crate::config_source::ConfigSource::owner) knows what stands for a
    /// missing one.
    pub name: Option<Owner>,
    /// The Redis to serve. [`ConfigSource::redis_url`](crate::config_source::ConfigSource::redis_url) knows what
    /// overrides it.
    pub redis_url: RedisUrl,
    /// Files of TLS: parameter of the URL, and path. They count for every `rediss://` URL that does not name its own.
    pub tls_files: Vec<(&'static str, String)>,
    /// The refill period: [`MIN_TICK`] to [`MAX_TICK`].
    pub tick: Duration,
    /// Whether the daemon reloads by itself when a file of the config changes.
    pub watch: bool,
    /// The admin server; none unless configured.
    pub admin: Option<AdminConfig>,
    /// The limits by name.
    pub limits: BTreeMap<LimitName, LimitConfig>,
    /// Keys that are legal but probably not meant, in order of lines.
    pub warnings: Vec<Problem>,
}

// === impl Config ===

impl Config {
    /// Parses and checks `text`; `file` is its name in problems.
    ///
    /// # Errors
    /// All problems of the text, in order of lines.
    ///
    /// # Examples
    /// ```
    /// use topup_daemon::config::Config;
    ///
    /// let config = Config::parse("[limit.api]\ncapacity = 100\nrate = \"50/s\"", "config.toml").unwrap();
    /// assert_eq!(config.limits["api"].capacity.get(), 100);
    ///
    /// let problems = Config::parse("[limit.api]\ncapcity = 100\nrate = \"50/s\"", "config.toml").unwrap_err();
    /// assert_eq!(problems.to_string(), r#"config.toml:2: limit.api.capcity: unknown key; did you mean "capacity"?"#);
    /// ```
    pub fn parse(text: &str, file: &str) -> Result<Self, Problems> {
        ConfigFiles::of(text, file).parse_with(&|_| None)
    }

    /// Reads, parses and checks the file at `path`, and those of its `include_dir`.
    ///
    /// # Errors
    /// All problems of the files, or the one that the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, Problems> {
        ConfigFiles::read(path).parse()
    }

    /// The file at `path` as far as it is about Redis: its limits are neither checked nor in the config.
    ///
    /// # Errors
    /// The problems of `[redis]`. All problems of the file if it cannot be told which Redis it means.
    pub fn load_without_limits(path: &Path) -> Result<Self, Problems> {
        ConfigFiles::read(path).parse_without_limits()
    }
}

impl Default for Config {
    /// The config of an empty file, without its warning.
    fn default() -> Self {
        Self {
            name: None,
            redis_url: RedisUrl::default(),
            tls_files: Vec::new(),
            tick: times::DEFAULT_TICK,
            watch: false,
            admin: None,
            limits: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }
}
