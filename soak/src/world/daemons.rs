//! Daemons: their start, their configs and their end.

use rustix::process::Signal;
use topup_tests::{Launch, Proxy, SOON, eventually};

use super::{
    World,
    running::{BAD, Running},
};
use crate::limits;

// === impl World ===

impl World {
    /// Brings all processes back, with the first config. Returns when all daemons are ready.
    pub async fn heal(&mut self) {
        self.ways.iter().for_each(Proxy::pass);
        for number in 0..self.daemons.len() {
            if self.daemons[number].as_ref().is_none_or(Running::has_ended) {
                self.end(number, None).await;
                self.daemons[number] = Some(self.daemon(number));
            }
        }
        for running in self.daemons.iter().flatten() {
            eventually(SOON, async || running.hears()).await;
        }
        self.reload(&limits::config(self.plan.limits(), false));
        for running in self.daemons.iter().flatten() {
            eventually(SOON, async || {
                let lines = running.daemon.lines();
                let ready = if running.is_bad { "reloaded: " } else { "ready: " };
                if lines.iter().any(|line| line.contains(ready)) { Ok(()) } else { Err(lines.join("\n")) }
            })
            .await;
        }
        self.redis.reconnect().await;
    }

    /// Ends all daemons in order.
    pub async fn stop_daemons(&mut self) {
        for number in 0..self.daemons.len() {
            self.end(number, Some(Signal::TERM)).await;
        }
    }

    /// Writes another config for all daemons, and tells those that run.
    pub(super) fn reload(&mut self, config: &str) {
        config.clone_into(&mut self.config);
        for running in self.daemons.iter().flatten() {
            running.daemon.rewrite_config(config);
            if running.hears() {
                running.daemon.signal(Signal::HUP);
            }
        }
    }

    pub(super) fn daemon(&self, number: usize) -> Running {
        let daemon = Launch::new(&self.config).env("TOPUP_REDIS_URL", self.ways[number].url()).run();
        Running { daemon, is_bad: self.config == BAD }
    }

    /// Ends a daemon, and looks at how it ended and what it has said.
    pub(super) async fn end(&mut self, number: usize, signal: Option<Signal>) {
        let Some(Running { mut daemon, is_bad }) = self.daemons[number].take() else { return };
        if let Some(signal) = signal {
            daemon.signal(signal);
        }
        let status = daemon.wait_exit(SOON).await;
        let lines = daemon.lines();
        let is_well = match signal {
            Some(Signal::KILL) => true,
            // It handles no signals before its first line.
            Some(_) if lines.is_empty() => true,
            _ => status.success() || is_bad && status.code() == Some(78),
        };
        if !is_well || lines.iter().any(|line| line.contains("panicked")) {
            self.broken.push(format!("daemon {number} ended with {status}"));
        }
        self.logs.push(format!("daemon {number}, which ended with {status}:\n  {}", lines.join("\n  ")));
    }
}
