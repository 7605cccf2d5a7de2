//! What people read: progress while it runs, tables at the end, a page for the browser.

mod page;
mod summary;
mod terminal;

use std::io::{IsTerminal, Write};

pub use page::page;
pub use terminal::{about_trace, of_trace, print as terminal};

/// A line of progress, for whoever waits at a terminal.
pub fn tell(line: &str) {
    let mut to = std::io::stderr().lock();
    if to.is_terminal() {
        // A reader that has gone is no error.
        let _ = writeln!(to, "{line}");
    }
}

/// What whoever runs this has to know.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// What was asked for; a reader that has gone is no error.
pub fn answer(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
