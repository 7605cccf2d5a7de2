//! The scripts on a real redis-server: against their twin, against the laws, and against the promises of their headers.
//!
//! Time is real and cannot be waited for, so it is made to pass by moving every instant kept in Redis: see `travel`.
//! A failing seed prints itself; `TOPUP_TEST_SEED=7` runs that one again, `TOPUP_TEST_SEED=0..9999` a long night of
//! them. The server is the `redis-server` on the PATH; `scripts/engines` puts others there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails where it unwraps")]

mod contracts;
mod cost;
mod generators;
mod laws;
mod plain;
mod server;
mod throttle;
mod travel;
mod twin;
