//! The config: text, then raw tables, then checked limits. Only this module knows TOML.
//!
//! [`Config::load`] reports all problems of a file at once, each on one line with its location, the mistake and the
//! fix. This module reads no clock and no environment.
//!
//! `syntax` parses the text, `raw_table` and `raw_limit` read its keys, `check_limit` applies the rules between keys.

mod admin;
mod advice;
mod candidate;
mod check_limit;
mod diagnostics;
mod effective;
mod keys;
mod limit;
mod problem;
mod raw_limit;
mod raw_table;
mod redis_url;
mod syntax;
#[cfg(test)]
mod tests;
mod times;
mod warnings;
mod windows;

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use topup_wire::{claims::Owner, limit::LimitName, namespace::Namespace};

pub use admin::{AdminConfig, Listen};
pub use candidate::Candidate;
use diagnostics::Diagnostics;
pub use effective::EffectiveTerms;
pub use limit::{LimitConfig, ScheduleEntry, SupplyConfig};
pub use problem::{Problem, Problems};
use raw_limit::RawLimit;
use raw_table::{Located, RawTable};
pub use redis_url::{RedisUrl, RedisUrlError};
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
        let (entries, syntax_errors) = syntax::parse(text);
        let diagnostics = Diagnostics::new(text, file, syntax_errors);
        let config = if diagnostics.has_unclosed_bracket() {
            Self::default()
        } else {
            Self::read(&RawTable::root(&entries, &diagnostics))
        };
        let (errors, warnings) = diagnostics.finish();
        if errors.is_empty() { Ok(Self { warnings, ..config }) } else { Err(Problems(errors)) }
    }

    /// Reads, parses and checks the file at `path`.
    ///
    /// # Errors
    /// All problems of the file, or the one that it cannot be read.
    pub fn load(path: &Path) -> Result<Self, Problems> {
        let text =
            fs::read_to_string(path).map_err(|error| Problems(vec![Problem::unreadable(path, &error)]))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Self::parse(&text, &name)
    }

    /// The file at `path` as far as it is about Redis: its limits are neither checked nor in the config.
    ///
    /// # Errors
    /// The problems of `[redis]`. All problems of the file if it cannot be told which Redis it means.
    pub fn load_without_limits(path: &Path) -> Result<Self, Problems> {
        let problems = match Self::load(path) {
            Ok(config) => return Ok(config.without_limits()),
            Err(Problems(problems)) => problems,
        };
        let text = fs::read_to_string(path).unwrap_or_default();
        let (entries, syntax_errors) = syntax::parse(&text);
        let diagnostics = Diagnostics::new(&text, "", syntax_errors);
        let url = entries.get("redis").and_then(|redis| redis.get_ref().as_table()?.get_key_value("url"));
        let names_redis = url.is_some_and(|(key, _)| !diagnostics.is_broken_at(key.span().start));
        // A line that is no TOML may be the one with the URL.
        let is_known = names_redis || diagnostics.is_all_toml();
        let is_of_redis = |problem: &&Problem| problem.line.is_none() || problem.key.starts_with("redis");
        if diagnostics.has_unclosed_bracket()
            || !is_known
            || problems.iter().any(|problem| is_of_redis(&problem))
        {
            return Err(Problems(problems));
        }
        Ok(Self::read(&RawTable::root(&entries, &diagnostics)).without_limits())
    }

    fn without_limits(self) -> Self {
        Self { limits: BTreeMap::new(), warnings: Vec::new(), ..self }
    }

    fn read(root: &RawTable<'_>) -> Self {
        let redis = root.table("redis", keys::REDIS);
        let redis_url = redis.as_ref().map(Self::redis_url).unwrap_or_default();
        let tls_files = redis.as_ref().map(tls_files).unwrap_or_default();
        let daemon = root.table("daemon", keys::DAEMON);
        let tick = daemon
            .and_then(|daemon| daemon.text_by("tick", times::tick))
            .map_or(times::DEFAULT_TICK, |tick| tick.value);
        let admin = admin::read(root);
        let tables = root.children::<LimitName>("limit", keys::LIMIT);
        if tables.is_empty() {
            root.warn("no limit is defined, so there is nothing to top up: add a table such as [limit.api]");
        }
        let checked = tables
            .into_iter()
            .filter_map(|(name, table)| check_limit::check(RawLimit::read(&table), &table, name, tick));
        let limits = checked.map(|limit| (limit.name, limit)).collect();
        let name = root.text("name").map(|name| name.value);
        Self { name, redis_url, tls_files, tick, admin, limits, warnings: Vec::new() }
    }

    /// The Redis of the table, with its namespace: named beside the URL or in it.
    fn redis_url(redis: &RawTable<'_>) -> RedisUrl {
        let url = redis.text::<RedisUrl>("url").map_or_else(RedisUrl::default, |url| url.value);
        let Some(Located { value: namespace, location }) = redis.text::<Namespace>("namespace") else {
            return url;
        };
        if let Some(other) = url.named_namespace().filter(|other| *other != namespace) {
            redis.error(&location, format!("the url names another, {other}: name one, in one place"));
        }
        url.or_namespace(Some(namespace))
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
            admin: None,
            limits: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }
}

/// The files of TLS in `[redis]`.
fn tls_files(redis: &RawTable<'_>) -> Vec<(&'static str, String)> {
    let file = |key| Some((key, redis.text::<String>(key)?.value));
    for (key, other) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
        if redis.has(key) {
            redis.require(other, &format!(", which belongs to {key}"));
        }
    }
    ["tls_ca", "tls_cert", "tls_key"].into_iter().filter_map(file).collect()
}
