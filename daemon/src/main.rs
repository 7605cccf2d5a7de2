//! The topup daemon.
fn main() {}
