//! End to end: the daemon and its unit, on a real Redis and a real systemd-analyze.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it unwraps")]

mod daemon;
mod harness;
mod pages;
mod security;
mod service;
mod systemd;
mod workers;
