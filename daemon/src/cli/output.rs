//! Output of the commands. A closed standard output or standard error is ignored.

use std::io::Write;

use serde_json::{Value, json};
use tracing::Level;

use super::exit::Exit;
use crate::logging::prioritized;

/// Prints an error with its causes on standard error.
pub(super) fn print_error(error: &anyhow::Error) {
    eprint_line(&format!("topupd: {error:#}"));
}

/// Prints an error as JSON on standard output, where the answer would be: `{"error": {"kind", "exit_code", "message"}}`.
pub(super) fn print_json_error(exit: Exit, kind: &str, message: &str) {
    let message = message.strip_prefix("topupd: ").unwrap_or(message);
    let error = json!({ "kind": kind, "exit_code": exit.code(), "message": message });
    print_line(&json!({ "error": error }).to_string());
}

/// Prints an error, or a text that begins with `warning: `, on standard error.
pub(super) fn eprint_line(text: &str) {
    let level = if text.starts_with("warning: ") { Level::WARN } else { Level::ERROR };
    let _ = writeln!(std::io::stderr().lock(), "{}", prioritized(text, level));
}

/// Prints the answer of a command on standard output: `value` if it is to be JSON, else `text`.
pub(super) fn print_answer(is_json: bool, value: &Value, text: &str) {
    print_line(&if is_json { value.to_string() } else { text.to_owned() });
}

/// Prints a line on standard output.
pub(super) fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
