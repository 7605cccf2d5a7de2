//! Types and code that topup's daemon and client share: limits, the keyspace in Redis, connections, and each script
//! beside the code that calls it.

pub mod acl;
pub mod assigned_keys;
pub mod assignments;
pub mod bucket;
pub mod claims;
pub mod connection;
pub mod constants;
pub mod counts;
mod fnv;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod hash_slot;
#[cfg(feature = "in-memory")]
#[doc(hidden)]
pub mod in_memory;
pub mod keyspace;
mod least_rights;
pub mod limit;
pub mod namespace;
pub mod pipeline;
pub mod publishing;
pub mod reply;
pub mod schema;
pub mod scripts;
