//! topup measured beside other rate limiters: the same Redis, the same load, the same minutes. `scripts/bench` runs it.

mod catalog;
mod cli;
mod closed_loop;
mod cpu;
pub mod fixture;
pub mod limiter;
mod measurement;
mod open_loop;
mod report;
mod rules;
mod schedule;
mod suite;
mod worker;

pub use cli::{main, rivals::Rivals};
pub use cpu::avoid_redis;
pub use worker::asker::Asker;
