//! Causes of an error: Redis, or the call itself.

use topup_wire::{connection, limit::LimitName};

use super::{Error, RedisError};

// === impl Error ===

impl Error {
    /// Whether the same call may succeed later: Redis was slow, unreachable or failing over.
    ///
    /// A take that failed in this way may have been carried out. Repeating it may take its tokens twice.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::DeadlineExceeded { .. }
            | Self::CircuitOpen
            | Self::NothingPublished { .. }
            | Self::DefinitionContested { .. }
            | Self::LimitLost { .. } => true,
            Self::Redis(error) => error.is_transient(),
            _ => false,
        }
    }

    /// Whether Redis gave no decision, or none that this version understands.
    pub(crate) const fn is_of_redis(&self) -> bool {
        matches!(
            self,
            Self::Redis(_)
                | Self::DeadlineExceeded { .. }
                | Self::CircuitOpen
                | Self::NothingPublished { .. }
                | Self::LimitLost { .. }
                | Self::UnreadableLimit { .. }
                | Self::NewerSchema(_)
                | Self::PlanChanged { .. }
        )
    }

    /// Whether Redis left the call without a reply.
    pub(crate) fn has_no_reply(&self) -> bool {
        match self {
            Self::DeadlineExceeded { .. } => true,
            Self::Redis(RedisError(error)) => {
                error.is_io_error() || error.is_timeout() || error.is_connection_dropped()
            }
            _ => false,
        }
    }

    /// Whether no bucket could ever allow this take.
    pub(crate) const fn is_of_the_take(&self) -> bool {
        matches!(self, Self::InvalidKey(_) | Self::ExceedsCapacity { .. } | Self::InvalidCount { .. })
    }

    /// Not an impl of `From`, which would show the type of the redis crate in the public interface.
    pub(crate) const fn redis(error: redis::RedisError) -> Self {
        Self::Redis(RedisError(error))
    }

    /// The error of reading the record of `limit`.
    pub(crate) fn of_record(limit: &LimitName, error: redis::RedisError) -> Self {
        if error.kind() == redis::ErrorKind::Parse && !connection::is_transient(&error) {
            let text = error.to_string();
            // The redis crate puts the kind of the error first.
            let problem = text.split_once(" - ").map_or(text.as_str(), |(_, problem)| problem).to_owned();
            return Self::UnreadableLimit { limit: limit.to_string(), problem };
        }
        Self::redis(error)
    }

    pub(crate) fn client_dropped() -> Self {
        Self::redis(redis::RedisError::from((redis::ErrorKind::Io, "the client was dropped")))
    }
}
