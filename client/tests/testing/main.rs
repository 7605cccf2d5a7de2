//! `topup::testing`, against the twin of the scripts, against a real Redis, and against the laws.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by a panic, and says its seed")]

mod calls;
#[cfg(feature = "simulation")]
mod counted;
mod defined;
#[cfg(feature = "simulation")]
mod denials;
mod deterministic;
mod holds;
mod laws;
mod permits;
mod real;
mod seeds;
mod shares;
#[cfg(feature = "simulation")]
mod take_all;
mod twin;
mod waits;
#[cfg(feature = "simulation")]
mod windows;
