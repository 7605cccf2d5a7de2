//! Lines for the user. A reader that has gone is no error.

use std::io::Write;

/// Prints the answer of a program, on standard output.
pub fn answer(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints progress or an error, on standard error.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
