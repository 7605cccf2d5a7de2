//! The limiters under test. Each is asked for tokens of one key, the way its own documentation says.

pub mod connect;
pub(crate) mod decide;
pub(crate) mod kind;
pub(crate) mod lua;
pub(crate) mod raw;
pub(crate) mod redis_cell;
pub(crate) mod topup;

pub use decide::{Decide, Load, Names};
pub use kind::Limiter;
