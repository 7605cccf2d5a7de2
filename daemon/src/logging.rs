//! Logs, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

/// What is logged unless asked for otherwise; the scheduler's own notes are of no use to an operator.
const DEFAULT: &str = "info,tokio_cron_scheduler=warn";

/// Logs to standard error from now on: `info` and above, or as `TOPUP_LOG` says. Coloured on a terminal only, and
/// without the time where the journal adds its own.
pub fn start() {
    let asked = std::env::var("TOPUP_LOG").ok().filter(|asked| !asked.is_empty());
    let filter = EnvFilter::new(asked.as_deref().unwrap_or(DEFAULT));
    let layer = fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    // A reader of the log that has gone ends no daemon.
    let layer = layer.log_internal_errors(false);
    let layer = layer.with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        layer.without_time().init();
    } else {
        layer.init();
    }
}
