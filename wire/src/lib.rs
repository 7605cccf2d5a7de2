//! What topup's daemon and client share: the types of a limit, the arithmetic of a bucket, the
//! keyspace in Redis, and each script beside the code that calls it.

pub mod bucket;
pub mod connection;
pub mod counts;
pub mod keyspace;
pub mod lane;
pub mod limit;
pub mod reply;
pub mod scripts;
pub mod slot;
