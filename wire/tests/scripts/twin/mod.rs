//! The scripts and their Rust twin see the same traffic at the same instants, and agree on every reply and every key.

mod arithmetic;
mod at_rest;
mod counters;
mod joint;
mod promised;
mod quick;
mod rated;
mod record;
mod scripted;
mod windowed;
mod world;
