//! The work of a Redis, by its own counters.

use std::collections::BTreeMap;

use anyhow::Context;
use redis::{Cmd, aio::ConnectionLike};

/// Redis's counters at one instant, or the difference of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RedisCounters {
    /// CPU time of the whole server, network included, in µs.
    pub cpu: f64,
    /// Bytes in use.
    pub memory: f64,
    /// Calls and µs of each command. A command called by a script counts for itself and in the script's µs.
    commands: BTreeMap<String, (f64, f64)>,
}

/// The version of a Redis.
///
/// # Errors
/// When Redis does not answer.
pub async fn redis_version(connection: &mut impl ConnectionLike) -> anyhow::Result<String> {
    let info: String = Cmd::new().arg("INFO").arg("server").query_async(connection).await?;
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    Ok(version.unwrap_or("of unknown version").trim().to_owned())
}

// === impl RedisCounters ===

impl RedisCounters {
    /// Reads the counters.
    ///
    /// # Errors
    /// When Redis does not answer, or another server does.
    pub async fn read(connection: &mut impl ConnectionLike) -> anyhow::Result<Self> {
        // Several sections in one INFO are understood from Redis 7.0 on only, "all" everywhere.
        let info: String = Cmd::new().arg("INFO").arg("all").query_async(connection).await?;
        Self::parse(&info)
    }

    fn parse(info: &str) -> anyhow::Result<Self> {
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = |name: &str| -> anyhow::Result<f64> {
            Ok(field(name).with_context(|| format!("INFO has no {name}"))?.trim().parse()?)
        };
        let of = |line: &str, what: &str| -> f64 {
            let parts = line.split(',').filter_map(|part| part.split_once('='));
            parts.filter(|(key, _)| *key == what).find_map(|(_, value)| value.parse().ok()).unwrap_or(0.0)
        };
        let all = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let commands = all.map(|(name, line)| (name.to_owned(), (of(line, "calls"), of(line, "usec"))));
        Ok(Self {
            cpu: (number("used_cpu_sys")? + number("used_cpu_user")?) * 1e6,
            memory: number("used_memory")?,
            commands: commands.filter(|(name, _)| name != "info").collect(),
        })
    }

    /// The difference from `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |(name, (calls, micros)): (&String, &(f64, f64))| {
            let (was_calls, was_micros) = before.commands.get(name).copied().unwrap_or_default();
            (name.clone(), (calls - was_calls, micros - was_micros))
        };
        Self {
            cpu: self.cpu - before.cpu,
            memory: self.memory - before.memory,
            commands: self.commands.iter().map(less).collect(),
        }
    }

    /// Calls and µs of `commands`, in all.
    pub fn of(&self, commands: &[&str]) -> (f64, f64) {
        let found = commands.iter().filter_map(|name| self.commands.get(*name));
        found.fold((0.0, 0.0), |(calls, micros), (more, longer)| (calls + more, micros + longer))
    }

    /// Calls of all commands, with those that scripts call.
    pub fn calls(&self) -> f64 {
        self.commands.values().map(|(calls, _)| calls).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "used_memory:7\r\nused_cpu_sys:0.25\r\nused_cpu_user:0.5\r\nused_cpu_sys_children:9.0\r\n\
        cmdstat_decr:calls=30,usec=15,usec_per_call=0.50\r\ncmdstat_info:calls=4,usec=400\r\n\
        cmdstat_evalsha:calls=8,usec=100,usec_per_call=12.50\r\n";

    #[test]
    fn counters_are_found_without_the_questions_for_them() {
        let counters = RedisCounters::parse(INFO).unwrap();
        assert_eq!((counters.cpu, counters.memory, counters.calls()), (750_000.0, 7.0, 38.0));
        assert_eq!(counters.of(&["decr", "evalsha", "info", "get"]), (38.0, 115.0));
        let nothing = counters.since(&counters);
        assert_eq!((nothing.cpu, nothing.memory, nothing.calls()), (0.0, 0.0, 0.0));
        assert!(RedisCounters::parse("NOPERM").is_err());
    }
}
