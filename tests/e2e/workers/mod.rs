//! Workers: what the client promises, on a real Redis with a real daemon, and what holds when those fail.

#![allow(clippy::print_stdout, reason = "figures for whoever asks for them with --nocapture")]

mod algorithms;
mod bursts;
mod cancellation;
mod changes;
mod cluster;
mod combined;
mod commands;
mod contract;
mod counts;
mod data_loss;
mod defined;
mod edges;
mod errors;
mod fallback;
mod fixture;
mod healing;
mod holds;
mod incidents;
mod keys;
mod lazy;
mod leases;
mod million_plans;
mod namespaces;
mod network;
mod on_outage;
mod oracle;
mod outage;
mod overload;
mod pauses;
mod penalty;
mod permits;
mod plans;
mod processes;
mod pure;
mod refund;
mod rollout;
mod sentinel;
mod take_all;
mod top_keys;
mod trial;
mod upgrade;
mod urls;
mod waiting;
mod windows;
