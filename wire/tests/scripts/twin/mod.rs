//! The scripts and their Rust twin see the same traffic at the same instants, and agree on every reply and every key.

mod arithmetic;
mod at_rest;
mod counters;
mod fair_shares;
#[cfg(feature = "in-memory")]
mod fixed_window;
mod permits;
mod promised;
#[cfg(feature = "in-memory")]
mod quick;
mod rated;
mod record;
mod schedule;
mod script_only;
mod settle_packed;
mod take_all;
mod windowed;
mod world;
