//! Why nothing is known of a bucket.

use redis::RedisError;
use topup_wire::{
    limit::{KeyError, LimitName, NameError},
    schema::NewerSchema,
};

/// The reason why nothing is known of a bucket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BucketError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("limit {0} is keyed")]
    NeedsKey(LimitName),
    #[error("limit {0} has one bucket for all")]
    HasNoKeys(LimitName),
    #[error("limit {0} has permits in place of tokens: workers acquire and release them")]
    HasPermits(LimitName),
    #[error("the key is assigned to {1} in limit {0}, and has no bucket")]
    HasNoBucket(LimitName, &'static str),
    #[error("no limit {0} is published")]
    Unpublished(LimitName),
    #[error("limit {0} has changed just now: try again")]
    Changed(LimitName),
    #[error("the bucket of limit {0} holds at most {1} tokens: take no more than that")]
    ExceedsCapacity(LimitName, u64),
    #[error("{0}")]
    NewerSchema(NewerSchema),
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
}
