//! Messages that no operator must miss: in the log, or on standard error without the feature `tracing`.

#[cfg(feature = "tracing")]
pub(crate) fn say(message: &str) {
    tracing::error!("{message}");
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn say(message: &str) {
    use std::io::Write;

    // A closed standard error is ignored.
    let _ = writeln!(std::io::stderr().lock(), "topup: {message}");
}
