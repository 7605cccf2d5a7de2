//! What people read: progress while it runs, tables at the end, the same tables in docs.

mod bars;
mod page;
mod sections;

pub(crate) use bars::bars;
pub(crate) use page::{Surroundings, installed_redis, put, written};
use sections::replaced;

/// A line of progress, for whoever waits.
#[allow(clippy::print_stderr, reason = "the one place")]
pub(crate) fn tell(line: &str) {
    eprintln!("{line}");
}

/// What was asked for.
#[allow(clippy::print_stdout, reason = "the one place")]
pub(crate) fn answer(text: &str) {
    println!("{text}");
}
