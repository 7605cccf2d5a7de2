//! A daemon that runs, and its config.

use std::fs;

use topup_tests::Daemon;

/// A config that does not parse.
pub(super) const BAD: &str = "name = \"soak\"\n[limit.counting\n";

/// A daemon process.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) daemon: Daemon,
    /// Whether it began with a config that does not parse.
    pub(super) is_bad: bool,
}

// === impl Running ===

impl Running {
    /// Whether it handles signals: from its first line on.
    pub(super) fn hears(&self) -> bool {
        !self.daemon.lines().is_empty()
    }

    pub(super) fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.daemon.pid())).unwrap_or_default();
        stat.contains(") Z ")
    }
}
