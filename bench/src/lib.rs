//! topup measured beside other rate limiters: the same Redis, the same load, the same minutes. `scripts/bench` runs it.

mod cell;
mod cli;
mod clock;
mod cpu;
mod leash;
mod machine;
mod peer;
mod report;
mod rules;
mod stage;
mod suite;
mod team;
mod worker;

pub use cli::main;
pub use cpu::avoid_redis;
pub use stage::Stage;
