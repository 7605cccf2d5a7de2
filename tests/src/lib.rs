//! The harness of the end-to-end tests: one real Redis per test, the daemon as a child process.
//!
//! Nothing is shared between tests and nothing sleeps to wait: every wait has a condition and a deadline. What
//! goes wrong in the harness fails the test in hand, with what the daemon or Redis said last.

#![allow(clippy::expect_used, clippy::panic, reason = "a harness fails the test it serves")]

pub mod attempt;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod daemon;
pub mod eventually;
pub mod notify;
pub mod proxy;
pub mod redis;
pub mod seed;
pub mod stalls;
pub mod workers;

mod cargo;
mod lines;

pub use crate::attempt::{Answer, Attempt, work};
pub use crate::cli::{Cli, Ended};
pub use crate::cluster::Cluster;
pub use crate::daemon::{Daemon, Launch};
pub use crate::eventually::eventually;
pub use crate::notify::NotifySocket;
pub use crate::proxy::Proxy;
pub use crate::redis::Redis;
pub use crate::seed::Seed;
pub use crate::stalls::Stalls;
pub use crate::workers::Workers;
pub use rustix::process::Signal;

use std::time::Duration;

/// A deadline for what takes milliseconds on an idle machine: generous, because a test machine is not idle.
pub const SOON: Duration = Duration::from_secs(10);
