//! What `config.toml` says: text, then as typed, then checked. Only this module knows TOML.
//!
//! Every problem of a file is reported at once, each on one line with its place, what is wrong and
//! what to write instead. Nothing here reads the environment or a clock.

mod advice;
mod candidate;
mod in_force;
mod keys;
mod limit;
mod problem;
mod redis_url;
mod report;
mod syntax;
mod table;
#[cfg(test)]
mod tests;
mod times;
mod typed;
mod warnings;
mod windows;

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use topup_wire::limit::LimitName;

pub use candidate::Candidate;
pub use in_force::InForce;
pub use limit::{Entry, LimitConfig, Source};
pub use problem::{Problem, Problems};
pub use redis_url::{RedisUrl, RedisUrlError};
use report::Report;
use table::Table;
use times::Tick;
pub use times::{MAX_TICK, MIN_TICK};

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The Redis to serve. `TOPUP_REDIS_URL`, when set, replaces it: parse it as a [`RedisUrl`] too.
    pub redis_url: RedisUrl,
    /// The refill period: [`MIN_TICK`] to [`MAX_TICK`].
    pub tick: Duration,
    /// The limits by name.
    pub limits: BTreeMap<LimitName, LimitConfig>,
    /// What is legal but probably not meant, in order of lines.
    pub warnings: Vec<Problem>,
}

// === impl Config ===

impl Config {
    /// The configuration `text` holds; `file` is its name in problems.
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
        let (entries, broken) = syntax::parse(text);
        let report = Report::new(text, file, broken);
        // Behind an unclosed bracket every key would seem to stand in the wrong table.
        let config =
            if report.is_torn() { Self::default() } else { Self::read(&Table::root(&entries, &report)) };
        let (errors, warnings) = report.finish();
        if errors.is_empty() { Ok(Self { warnings, ..config }) } else { Err(Problems(errors)) }
    }

    /// The configuration in the file at `path`.
    ///
    /// # Errors
    /// All problems of the file; one that cannot be read is a problem too.
    pub fn load(path: &Path) -> Result<Self, Problems> {
        let text =
            fs::read_to_string(path).map_err(|error| Problems(vec![Problem::unreadable(path, &error)]))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Self::parse(&text, &name)
    }

    fn read(root: &Table<'_>) -> Self {
        let redis = root.table("redis", keys::REDIS);
        let redis_url = redis.and_then(|redis| redis.text::<RedisUrl>("url"));
        let daemon = root.table("daemon", keys::DAEMON);
        let tick = daemon
            .and_then(|daemon| daemon.text::<Tick>("tick"))
            .map_or_else(Tick::default, |tick| tick.value);
        let tables = root.children::<LimitName>("limit", keys::LIMIT);
        if tables.is_empty() {
            root.warn("no limit is defined, so there is nothing to top up: add a table such as [limit.api]");
        }
        let checked = tables.into_iter().filter_map(|(name, table)| {
            let limit = typed::Limit::read(&table);
            limit.check(&table, name, tick.get())
        });
        let limits = checked.map(|limit| (limit.name, limit)).collect();
        Self {
            redis_url: redis_url.map_or_else(RedisUrl::default, |url| url.value),
            tick: tick.get(),
            limits,
            warnings: Vec::new(),
        }
    }
}

impl Default for Config {
    /// What an empty file says, without the warning it gets.
    fn default() -> Self {
        Self {
            redis_url: RedisUrl::default(),
            tick: Tick::default().get(),
            limits: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }
}
