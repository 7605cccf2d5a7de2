//! The reason why Redis did not decide.

use std::fmt;

use crate::error::Error;

/// The reason why Redis did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutageReason {
    /// No reply came within the deadline.
    Timeout,
    /// The connection failed, or was refused.
    Unreachable,
    /// Redis replied with an error: it loads its data, is a replica, or is out of memory.
    Refused,
    /// Redis has left the last calls without a reply, so it was not asked. A probe asks it ten times a second.
    CircuitOpen,
    /// Redis holds no limits, or has lost the record of this one, or no daemon has published any yet.
    NothingPublished,
    /// This version cannot read the limit's record: a newer daemon wrote it, or it is corrupt.
    Unreadable,
}

// === impl OutageReason ===

impl OutageReason {
    /// The reason in `error`; `None` for an error of another kind.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        Some(match error {
            Error::DeadlineExceeded { .. } => Self::Timeout,
            Error::CircuitOpen => Self::CircuitOpen,
            Error::NothingPublished { .. } | Error::LimitLost { .. } => Self::NothingPublished,
            Error::UnreadableLimit { .. } | Error::NewerSchema(_) => Self::Unreadable,
            error if error.has_no_reply() => Self::Unreachable,
            error if error.is_of_redis() => Self::Refused,
            _ => return None,
        })
    }
}

impl fmt::Display for OutageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "Redis did not reply in time",
            Self::Unreachable => "Redis cannot be reached",
            Self::Refused => "Redis replied with an error",
            Self::CircuitOpen => "Redis does not reply",
            Self::NothingPublished => "nothing is published",
            Self::Unreadable => "what is published cannot be read",
        })
    }
}
