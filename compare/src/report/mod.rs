//! Progress, tables for the terminal, and a page for the browser.

mod page;
mod summary;
mod terminal;

use std::io::IsTerminal;

pub use page::page;
pub use terminal::{about_trace, of_trace, print as terminal};
pub use topup_lab::output::{answer, tell as complain};

/// Prints progress, on a terminal only.
pub fn tell(line: &str) {
    if std::io::stderr().is_terminal() {
        complain(line);
    }
}
