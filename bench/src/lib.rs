//! topup measured beside other rate limiters: the same Redis, the same load, the same minutes. `scripts/bench` runs it.

mod child_process;
mod cli;
mod clock;
mod cpu;
mod fixture;
mod limiter;
mod machine;
mod measurement;
mod monitor;
mod open_loop;
mod pool;
mod report;
mod rules;
mod schedule;
mod suite;
mod worker;

pub use cli::main;
pub use cpu::avoid_redis;
pub use fixture::Fixture;
