//! The topup daemon: publishes the limits of a config to Redis and keeps their buckets topped up.

pub mod alarm;
pub mod app;
pub mod calendar;
pub mod cli;
pub mod clock;
pub mod config;
pub mod logging;
pub mod publish;
pub mod refill;
pub mod signals;
pub mod source;
pub mod systemd;
pub mod text;
pub mod wanted;
