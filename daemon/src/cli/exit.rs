//! Exit codes, chosen here and nowhere else.

use std::{io::Write, process::ExitCode};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; a take was allowed.
    Done,
    /// A take was denied.
    Denied,
    /// No decision: Redis is away, or no such limit is published.
    Undecided,
    /// Wrong usage.
    Usage,
    /// Wrong config.
    Config,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        // 64 and 78 are EX_USAGE and EX_CONFIG of sysexits.h.
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Denied => 1,
            Exit::Undecided => 2,
            Exit::Usage => 64,
            Exit::Config => 78,
        })
    }
}

/// Says what went wrong.
pub(super) fn complain(error: &anyhow::Error) {
    note(&format!("topupd: {error:#}"));
}

/// Tells on standard error; a reader that has gone is no error.
pub(super) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Answers, on standard output; a reader that has gone is no error.
pub(super) fn answer(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
