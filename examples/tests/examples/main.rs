//! The examples, each run as a stranger would: against `topupd run --embedded`, with the config that stands beside them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails where it unwraps")]

mod crawler;
mod grpc;
mod limited;
mod sms;
mod stage;
mod web;
