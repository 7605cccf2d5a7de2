//! Why a limit is not defined.

use redis::RedisError;

use crate::{
    claims::{Definition, Owner},
    limit::MOST_DEFINED,
    scripts,
};

/// Attempts to define a limit, while others remove or change it.
pub(super) const ATTEMPTS: u32 = 8;

/// Why a limit is not defined.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefineError {
    /// Another owner has defined it.
    #[error("{} has defined it by code: take another name, or end that definition first", .0.owner)]
    Owned(Definition),
    /// A config has a limit of this name.
    #[error("a config has a limit of this name, which code does not change: take another name")]
    OfConfig(Option<Owner>),
    /// There are too many definitions.
    #[error("{MOST_DEFINED} limits are defined by code already: end some")]
    TooMany,
    /// The limit is removed or changed by others again and again.
    #[error("it is defined with different terms all the time")]
    Contested,
    /// The Redis user may not define limits.
    #[error(
        "the Redis user may not define limits: give it the rights of topup-definer, as \"topupd acl\" prints them"
    )]
    NotPermitted,
    /// An error of Redis.
    #[error(transparent)]
    Redis(RedisError),
}

// === impl DefineError ===

impl From<RedisError> for DefineError {
    fn from(error: RedisError) -> Self {
        // A call of a worker that may not write is sent again as one that only reads.
        match scripts::is_not_permitted(&error) || error.to_string().contains("read-only script") {
            true => Self::NotPermitted,
            false => Self::Redis(error),
        }
    }
}
