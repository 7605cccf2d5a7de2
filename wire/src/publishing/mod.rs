//! Steps of publishing a limit that take more than one script: by daemons, and by code that defines limits.

mod at_rest;
mod define;
mod define_error;
mod publish_defined;
mod remove;
mod shard;
mod undefine;

pub use at_rest::settle_at_rest;
pub use define::{DEFINED_FOR, Defined, define};
pub use define_error::DefineError;
pub use remove::{remove, sweep_shard, sweep_states};
pub use shard::{migrate_all, publish_shard};
pub use undefine::{remove_ended, undefine};

/// Buckets that one script or command handles: about a millisecond of Redis, so that takes pass between.
pub const SLICE: usize = 250;

/// Limits that are published, or read, at once. The connection's queue holds 50 requests. A fuller queue would block
/// all others, the heartbeat first, while the tasks that fill it are not polled.
pub const MAX_CONCURRENT: usize = 16;
