//! Workers: what the client promises, on a real Redis with a real daemon, and what holds when those fail.

#![allow(clippy::print_stdout, reason = "figures for whoever asks for them with --nocapture")]

mod algorithms;
mod cancellation;
mod changes;
mod cluster;
mod combined;
mod commands;
mod contract;
mod crowds;
mod edges;
mod errors;
mod fallback;
mod forgetful;
mod joint;
mod keys;
mod lazy;
mod leases;
mod network;
mod oracle;
mod outage;
mod overload;
mod processes;
mod pure;
mod rollout;
mod stage;
mod trial;
mod urls;
mod waiting;
mod windows;
