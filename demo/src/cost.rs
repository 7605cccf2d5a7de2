//! What the show costs Redis, by its own count.

use anyhow::Context;
use redis::{Cmd, aio::ConnectionLike};

/// Redis's counters at one instant, or the difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Commands, those that scripts call included.
    pub(crate) commands: u64,
    /// CPU time of the whole server, network included, in s.
    pub(crate) cpu: f64,
    pub(crate) decrs: Calls,
    pub(crate) scripts: Calls,
}

/// Calls of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Calls {
    pub(crate) count: u64,
    /// µs they took in all.
    pub(crate) micros: u64,
}

// === impl Cost ===

impl Cost {
    /// Asks Redis.
    pub(crate) async fn ask(connection: &mut impl ConnectionLike) -> anyhow::Result<Self> {
        // Several sections in one INFO are understood from Redis 7.0 on only, "all" everywhere.
        let info: String = Cmd::new()
            .arg("INFO")
            .arg("all")
            .query_async(connection)
            .await
            .context("Redis does not say how it is doing")?;
        Self::read(&info)
    }

    fn read(info: &str) -> anyhow::Result<Self> {
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = |name: &str| field(name).with_context(|| format!("INFO has no {name}"));
        // Those below are absent until the first call.
        let calls = |name: &str| {
            let part = |what: &str| {
                let parts = field(&format!("cmdstat_{name}"))?.split(',');
                parts.filter_map(|part| part.split_once('=')).find(|(key, _)| *key == what)?.1.parse().ok()
            };
            Calls { count: part("calls").unwrap_or(0), micros: part("usec").unwrap_or(0) }
        };
        let own = calls("info").count + calls("hgetall").count;
        Ok(Self {
            commands: number("total_commands_processed")?.parse::<u64>()?.saturating_sub(own),
            cpu: number("used_cpu_sys")?.parse::<f64>()? + number("used_cpu_user")?.parse::<f64>()?,
            decrs: calls("decr").plus(calls("decrby")),
            scripts: calls("evalsha").plus(calls("eval")),
        })
    }

    /// What has been added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            commands: self.commands.saturating_sub(before.commands),
            cpu: self.cpu - before.cpu,
            decrs: self.decrs.minus(before.decrs),
            scripts: self.scripts.minus(before.scripts),
        }
    }
}

// === impl Calls ===

impl Calls {
    /// µs of one call.
    pub(crate) fn each(self) -> f64 {
        if self.count == 0 { 0.0 } else { self.micros as f64 / self.count as f64 }
    }

    fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, micros: self.micros + other.micros }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_sub(other.count),
            micros: self.micros.saturating_sub(other.micros),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Stats\r\ntotal_commands_processed:120\r\n# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:0.5\r\n\
        used_cpu_sys_children:9.0\r\n# Commandstats\r\ncmdstat_decr:calls=30,usec=15,usec_per_call=0.50\r\n\
        cmdstat_info:calls=4,usec=400\r\ncmdstat_evalsha:calls=8,usec=100,usec_per_call=12.50\r\n";

    #[test]
    fn counters_are_found_and_the_demo_s_own_questions_left_out() {
        let cost = Cost::read(INFO).unwrap();
        let expected = Cost {
            commands: 116,
            cpu: 0.75,
            decrs: Calls { count: 30, micros: 15 },
            scripts: Calls { count: 8, micros: 100 },
        };
        assert_eq!(cost, expected);
        assert_eq!((cost.decrs.each(), Calls::default().each()), (0.5, 0.0));
        assert_eq!(cost.since(&cost), Cost::default());
    }

    #[test]
    fn what_is_no_info_is_an_error() {
        assert!(Cost::read("NOPERM").is_err());
    }
}
