//! A private Redis: a `redis-server` child process on a unix socket in a folder of its own.
//!
//! No usable library speaks Redis inside the process, so this crate starts the real program. It has no persistence, is
//! reachable by this user only, and is not touched by the terminal's Ctrl-C. It ends when its [`RedisServer`] is dropped
//! or its parent process ends, however that ends (`kill -9` included).
//!
//! ```
//! # fn main() -> Result<(), topup_embedded::Error> {
//! let server = topup_embedded::RedisServer::start()?;
//! assert!(server.url().starts_with("redis+unix:///"));
//! # Ok(())
//! # }
//! ```
//!
//! The calls block (a start takes some 10 ms): from async code, wrap them in `spawn_blocking`. Linux only, with
//! `setpriv` of util-linux 2.33 or newer.

mod builder;
mod clock;
mod error;
mod folder;
mod keeper;
mod options;
mod parent;
mod ping;
mod port;
mod server;

pub use builder::Builder;
pub use error::Error;
pub use parent::child_command;
pub use port::ReservedPort;
pub use server::RedisServer;
