//! The harness of the end-to-end tests: one real Redis per test, the daemon as a child process.
//!
//! Tests share nothing. No test sleeps to wait: every wait has an event or a condition, and a deadline. A fault of the
//! harness fails the test at hand, and the message holds the last output of the daemon or of Redis.

#![allow(clippy::expect_used, clippy::panic, reason = "a harness fails the test it serves")]

pub mod attempt;
pub mod certificates;
pub mod cli;
pub mod cluster;
pub mod daemon;
pub mod eventually;
pub mod incident;
pub mod loading;
pub mod log;
pub mod notify;
pub mod page;
pub mod proxy;
pub mod redis;
pub mod seed;
pub mod sentinel;
pub mod stalls;
pub mod terminal;
pub mod workers;

mod cargo;
mod lines;

pub use crate::attempt::{Answer, Attempt, Pace, work};
pub use crate::certificates::{Authority, Certificate};
pub use crate::cli::{Cli, Ended};
pub use crate::cluster::Cluster;
pub use crate::daemon::{Daemon, Launch};
pub use crate::eventually::{eventually, none_left};
pub use crate::incident::Incident;
pub use crate::loading::Loading;
pub use crate::log::AttemptLog;
pub use crate::notify::NotifySocket;
pub use crate::proxy::Proxy;
pub use crate::redis::Redis;
pub use crate::seed::Seed;
pub use crate::stalls::Stalls;
pub use crate::terminal::Terminal;
pub use crate::workers::Workers;
pub use rustix::process::Signal;
pub use topup_lab::clock;

use std::time::Duration;

/// Deadline of a wait for one event. The slowest such event, a failover, takes 2 s on an idle machine; most take some ms.
pub const SOON: Duration = Duration::from_secs(30);
