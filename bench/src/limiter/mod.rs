//! The limiters under test. Each is asked for one token of one key, the way its own documentation says.

pub(crate) mod connect;
pub(crate) mod decide;
#[cfg(feature = "governor")]
pub(crate) mod governor;
pub(crate) mod kind;
#[cfg(feature = "limitador")]
pub(crate) mod limitador;
pub(crate) mod lua;
pub(crate) mod raw;
pub(crate) mod redis_cell;
pub(crate) mod topup;
#[cfg(feature = "trypema")]
pub(crate) mod trypema;
