//! Messages that no operator must miss: in the log, or on standard error where the process has none.

use std::io::Write;

/// Says `message` once, in the log of `tracing` or on standard error.
pub(crate) fn say(message: &str) {
    #[cfg(feature = "tracing")]
    if tracing::dispatcher::get_default(|log| !log.is::<tracing::subscriber::NoSubscriber>()) {
        tracing::error!("{message}");
        return;
    }
    // A closed standard error is ignored.
    let _ = writeln!(std::io::stderr().lock(), "topup: {message}");
}
