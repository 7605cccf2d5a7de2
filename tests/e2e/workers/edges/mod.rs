//! The edges: the attribute and the HTTP layers, on a real Redis with a real daemon.

#![allow(clippy::panic, reason = "a test fails where it is told something else")]

mod attribute;
mod hyper;
mod outgoing;
mod permits;
mod server;
mod settled;
mod shadow;

/// Limits that empty and stay so, but for one that soon has another token.
const CONFIG: &str = "\
    [limit.api]\ncapacity = 10\nrate = \"1/60s\"\n\
    [limit.one]\ncapacity = 1\nrate = \"1/60s\"\n\
    [limit.soon]\ncapacity = 1\nrate = \"5/s\"\n\
    [limit.lots]\nkeyed = true\ncapacity = 100\nrate = \"100/s\"\n\
    [limit.user]\nkeyed = true\ncapacity = 2\nrate = \"1/60s\"\n";
