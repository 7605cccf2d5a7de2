//! Deterministic simulation: workers, daemons and Redis in virtual time, from one seed, under every law.
//!
//! The workers run the client's real machine ([`topup::machine`]). Redis is the twin of the scripts
//! ([`topup_wire::bucket`]) with the expiry of keys and bare commands.

mod callers;
mod commands;
mod control;
mod daemons;
mod dice;
mod draw;
mod fault;
mod mishaps;
mod oracle;
mod plan;
mod put_in;
mod returns;
mod run;
mod server;
mod traffic;
mod worker;
mod world;

pub use fault::Fault;
pub use oracle::{Broken, Law};
pub use plan::{Ask, Daemons, Mishap, Network, Plan, Promise, SECOND, Stream};
pub use run::{Outcome, run, story};
pub use world::Counts;
