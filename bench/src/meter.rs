//! What Redis has done, by its own count.

use anyhow::Context;
use redis::aio::MultiplexedConnection;

/// Redis's counters at one instant, or the difference of two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    /// CPU time of the whole server, network included, in µs.
    pub(crate) cpu: f64,
    /// Commands, those that scripts call included.
    pub(crate) commands: f64,
    /// Scripts.
    pub(crate) scripts: f64,
    /// µs spent in scripts, the commands they call included: while no worker asks, the whole of a refill.
    pub(crate) refilling: f64,
    /// Bytes in use.
    pub(crate) memory: f64,
}

// === impl Meter ===

impl Meter {
    /// Asks Redis.
    pub(crate) async fn read(connection: &mut MultiplexedConnection) -> anyhow::Result<Self> {
        let info: String = redis::cmd("INFO").arg("all").query_async(connection).await?;
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
        let command =
            |name: &str, what: &str| field(&format!("cmdstat_{name}")).map_or(0.0, |line| of(line, what));
        let all = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        Ok(Self {
            cpu: (number("used_cpu_sys")? + number("used_cpu_user")?) * 1e6,
            commands: all.filter(|(name, _)| *name != "info").map(|(_, line)| of(line, "calls")).sum(),
            scripts: command("evalsha", "calls") + command("eval", "calls"),
            refilling: command("evalsha", "usec") + command("eval", "usec"),
            memory: number("used_memory")?,
        })
    }

    /// What has been added since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu - before.cpu,
            commands: self.commands - before.commands,
            scripts: self.scripts - before.scripts,
            refilling: self.refilling - before.refilling,
            memory: self.memory - before.memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "used_memory:7\r\nused_cpu_sys:0.25\r\nused_cpu_user:0.5\r\nused_cpu_sys_children:9.0\r\n\
        cmdstat_decr:calls=30,usec=15,usec_per_call=0.50\r\ncmdstat_info:calls=4,usec=400\r\n\
        cmdstat_evalsha:calls=8,usec=100,usec_per_call=12.50\r\ncmdstat_zadd:calls=0,usec=60\r\n";

    #[test]
    fn counters_are_found_and_our_own_questions_left_out() {
        let meter = Meter::parse(INFO).unwrap();
        assert_eq!(
            (meter.cpu, meter.commands, meter.scripts, meter.refilling),
            (750_000.0, 38.0, 8.0, 100.0)
        );
    }
}
