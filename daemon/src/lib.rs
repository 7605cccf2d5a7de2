//! The topup daemon: publishes the limits of a config to Redis and keeps their buckets topped up.

mod admin;
pub mod app;
mod assigned_rows;
pub mod calendar;
pub mod cli;
pub mod clock;
pub mod config;
pub mod config_source;
mod config_status;
pub mod logging;
pub mod metrics;
pub mod publish;
pub mod refill;
mod report;
pub mod restart;
pub mod signals;
mod source;
pub mod systemd;
pub mod text;
pub mod trouble;
pub mod wake_ups;
mod watch;
