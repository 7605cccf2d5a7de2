//! Which limiter is exact, and what does each cost? Every algorithm of topup's and the forms in which rate limiting on
//! Redis is usually written, under the same traffic on one real Redis, scored against an exact oracle.

pub mod advise;
pub mod clock;
pub mod comparison;
pub mod cost;
pub mod limiter;
pub mod oracle;
pub mod replay;
pub mod report;
pub mod rule;
pub mod score;
pub mod stage;
pub mod suite;
pub mod take;
pub mod traffic;
pub mod verdict;
pub mod worker;

mod cli;

pub use cli::main;
