//! The examples, each run as the documentation says: against `topupd run --embedded`, with
//! `topup.toml` or a config of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails where it unwraps")]

mod crawler;
mod fixture;
mod gateway;
mod grpc;
mod limited;
mod sms;
mod tenants;
mod web;
