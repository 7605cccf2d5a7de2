//! What can go wrong.

use std::time::Duration;

use topup_wire::{
    connection,
    limit::{KeyError, NameError, ThrottleError},
};

/// Why a call gave no answer. A denial is not among these: it is a [`Decision`](crate::Decision).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No limit of this name is published: the daemon has not started yet, or its config has no such limit.
    #[error("no limit {limit:?} is published: is topupd running, and is [limit.{limit}] in its config?")]
    UnknownLimit {
        /// The name as given.
        limit: String,
    },
    /// Redis holds no limits at all: it has come back empty, or no daemon has published any yet. A daemon that is alive
    /// publishes them at once.
    #[error("nothing is published, so limit {limit:?} is not known: is topupd running?")]
    NothingPublished {
        /// The name as given.
        limit: String,
    },
    /// A text that cannot be the name of a limit.
    #[error(transparent)]
    InvalidName(#[from] NameError),
    /// A text that cannot be a key.
    #[error(transparent)]
    InvalidKey(#[from] KeyError),
    /// The limit has a bucket for each key, and none was named.
    #[error("limit {limit:?} is keyed: say whose bucket, .key(...)")]
    KeyRequired {
        /// The name of the limit.
        limit: String,
    },
    /// The limit has one bucket for all, and a key was named.
    #[error("limit {limit:?} has one bucket for all: leave .key(...) out, or set keyed = true in its config")]
    KeyUnexpected {
        /// The name of the limit.
        limit: String,
    },
    /// More tokens than the bucket ever holds: such a take could never be allowed.
    #[error("limit {limit:?} holds at most {capacity} tokens, {count} can never be taken at once")]
    ExceedsCapacity {
        /// The name of the limit.
        limit: String,
        /// Tokens asked for.
        count: u64,
        /// The most the bucket holds.
        capacity: u64,
    },
    /// A take or refund of no tokens, or of more than 2^53.
    #[error("{count} is no number of tokens: 1 to 9007199254740992 (2^53)")]
    InvalidCount {
        /// Tokens asked for.
        count: u64,
    },
    /// No client was named, and none is the default.
    #[error("no client is the default: call topup::set_default(client) where the program starts")]
    NoDefault,
    /// A client is the default already, and stays it.
    #[error("a client is the default already: call topup::set_default once")]
    DefaultIsSet,
    /// Numbers that no throttle can have.
    #[error(transparent)]
    InvalidThrottle(#[from] ThrottleError),
    /// A reservation of a limit that is no leaky bucket.
    #[error("limit {limit:?} is a {algorithm}, and only a leaky-bucket is a queue: take, or wait")]
    NoQueue {
        /// The name of the limit.
        limit: String,
        /// What it is.
        algorithm: &'static str,
    },
    /// Redis did not answer in time. A take may have been carried out all the same.
    #[error("Redis did not answer within {deadline:?}")]
    DeadlineExceeded {
        /// The deadline of the call.
        deadline: Duration,
    },
    /// Redis could not be reached, or refused. Unless the connection was refused, a take may have been carried out.
    #[error("Redis: {0}")]
    Redis(#[from] redis::RedisError),
}

// === impl Error ===

impl Error {
    /// There is no answer any more: the client is gone.
    pub(crate) fn client_gone() -> Self {
        Self::Redis(redis::RedisError::from((redis::ErrorKind::Io, "the client was dropped")))
    }

    /// Whether the same call may succeed later, with nothing changed: Redis was slow, away, or failing over.
    ///
    /// A take that failed so is not to be repeated blindly: it may have been carried out.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::DeadlineExceeded { .. } | Self::NothingPublished { .. } => true,
            Self::Redis(error) => connection::is_transient(error),
            _ => false,
        }
    }

    /// Whether it is Redis that has not decided.
    pub(crate) const fn is_of_redis(&self) -> bool {
        matches!(self, Self::Redis(_) | Self::DeadlineExceeded { .. } | Self::NothingPublished { .. })
    }

    /// Whether it is the take itself that can never be allowed, by a limit that is as it should be.
    pub(crate) const fn is_of_the_take(&self) -> bool {
        matches!(self, Self::InvalidKey(_) | Self::ExceedsCapacity { .. } | Self::InvalidCount { .. })
    }
}
