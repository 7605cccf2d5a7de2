//! The log, on standard error.

use std::{
    env, fmt,
    fs::File,
    io::{self, IsTerminal},
    os::{fd::AsFd, unix::fs::MetadataExt},
};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
    },
    registry::LookupSpan,
};

/// The default filter. It leaves out the scheduler's own notes, which do not help an operator.
const DEFAULT: &str = "info,tokio_cron_scheduler=warn";

/// Formats events for the journal of systemd: each line begins with its priority, such as `<4>` for a warning. The
/// journal adds the time.
struct ForJournal(Format<Full, ()>);

/// Logs to standard error from now on: `info` and above, or by the filter in `TOPUP_LOG`. Only a terminal gets colours.
pub fn start() {
    let given = env::var("TOPUP_LOG").ok().filter(|given| !given.is_empty());
    let filter = EnvFilter::new(given.as_deref().unwrap_or(DEFAULT));
    let layer = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    // A closed standard error must not end the daemon.
    let layer = layer.log_internal_errors(false);
    let layer = layer.with_ansi(io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none());
    if goes_to_journal() {
        let format = Format::default().with_target(false).without_time().with_ansi(false);
        layer.event_format(ForJournal(format)).init();
    } else {
        layer.init();
    }
}

/// `text` as standard error gets it: for the journal, each line begins with the priority of `level`.
pub fn prioritized(text: &str, level: Level) -> String {
    if goes_to_journal() { prefixed(text, level) } else { text.to_owned() }
}

/// Whether standard error is the journal: systemd then names its device and inode in `JOURNAL_STREAM`.
fn goes_to_journal() -> bool {
    let stream = || {
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        Some(format!("{}:{}", stderr.dev(), stderr.ino()))
    };
    env::var("JOURNAL_STREAM").is_ok_and(|named| stream() == Some(named))
}

fn prefixed(text: &str, level: Level) -> String {
    // The priorities of syslog.
    let priority = match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    };
    text.lines().map(|line| format!("<{priority}>{line}")).collect::<Vec<_>>().join("\n")
}

// === impl ForJournal ===

impl<S, N> FormatEvent<S, N> for ForJournal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        self.0.format_event(ctx, Writer::new(&mut text), event)?;
        writeln!(writer, "{}", prefixed(text.trim_end(), *event.metadata().level()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_priority() {
        assert_eq!(prefixed("one\ntwo\n", Level::ERROR), "<3>one\n<3>two");
        let levels = [Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(levels.map(|level| prefixed("a", level)), ["<4>a", "<6>a", "<7>a", "<7>a"]);
    }
}
