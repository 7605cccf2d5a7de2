//! Permits: places of a limit with `algorithm = "concurrency"`, which are held, kept alive and released.

mod acquire;
mod asking;
mod keeper;
mod kept;
mod means;
mod permit;
mod shard;

pub(crate) use keeper::Keeper;
pub use permit::Permit;
