//! Exit codes, which this module alone chooses.

use std::process::ExitCode;

/// The result of a command, as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, or a take was allowed.
    Done,
    /// A take was denied.
    Denied,
    /// No decision: Redis is away or refuses, no such limit is published, or a live daemon has the limit to remove.
    Undecided,
    /// `status`: nothing is published.
    Unpublished,
    /// `status`: no daemon is alive.
    NoDaemon,
    /// `status`: takes are decided, but something needs a look.
    Degraded,
    /// Of `plan`: the reload would change something, or refuse a limit.
    Changes,
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
            Exit::Unpublished => 3,
            Exit::NoDaemon => 4,
            Exit::Degraded => 5,
            Exit::Changes => 6,
            Exit::Usage => 64,
            Exit::Config => 78,
        })
    }
}
