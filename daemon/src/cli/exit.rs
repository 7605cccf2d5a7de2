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
    /// `plan`: the reload would change something, or refuse a limit.
    Changes,
    /// Wrong usage.
    Usage,
    /// Wrong config.
    Config,
}

// === impl Exit ===

impl Exit {
    /// The exit code as a number.
    pub(super) const fn code(self) -> u8 {
        // 64 and 78 are EX_USAGE and EX_CONFIG of sysexits.h.
        match self {
            Self::Done => 0,
            Self::Denied => 1,
            Self::Undecided => 2,
            Self::Unpublished => 3,
            Self::NoDaemon => 4,
            Self::Degraded => 5,
            Self::Changes => 6,
            Self::Usage => 64,
            Self::Config => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
