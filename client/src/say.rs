//! Messages that no operator must miss: in the log of `tracing`, or on standard error where the process has none.

use std::io::Write;

/// Says `message`.
pub(crate) fn say(message: &str) {
    #[cfg(feature = "tracing")]
    if is_traced() {
        return tracing::error!(target: "topup", "{message}");
    }
    print(message);
}

/// Whether the process has a subscriber of `tracing`.
#[cfg(feature = "tracing")]
pub(crate) fn is_traced() -> bool {
    tracing::dispatcher::get_default(|log| !log.is::<tracing::subscriber::NoSubscriber>())
}

/// Writes a line to standard error. A closed one is ignored.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "topup: {line}");
}
