//! Output of the commands. A closed standard output or standard error is ignored.

use std::io::Write;

/// Prints an error with its causes on standard error.
pub(super) fn print_error(error: &anyhow::Error) {
    eprint_line(&format!("topupd: {error:#}"));
}

/// Prints a line on standard error.
pub(super) fn eprint_line(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a line on standard output.
pub(super) fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
