//! The log, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt};

/// The default filter. It leaves out the scheduler's own notes, which do not help an operator.
const DEFAULT: &str = "info,tokio_cron_scheduler=warn";

/// Logs to standard error from now on: `info` and above, or by the filter in `TOPUP_LOG`. Only a terminal gets colours.
/// The journal gets no time, since it adds its own.
pub fn start() {
    let given = std::env::var("TOPUP_LOG").ok().filter(|given| !given.is_empty());
    let filter = EnvFilter::new(given.as_deref().unwrap_or(DEFAULT));
    let layer = fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    // A closed standard error must not end the daemon.
    let layer = layer.log_internal_errors(false);
    let layer = layer.with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        layer.without_time().init();
    } else {
        layer.init();
    }
}
