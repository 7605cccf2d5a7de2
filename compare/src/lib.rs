//! Which limiter is exact, and what does each cost? Every algorithm of topup's and the forms in which rate limiting on
//! Redis is usually written, under the same traffic on one real Redis, scored against an exact oracle.

pub mod advise;
pub mod comparison;
pub mod cost;
pub mod fixture;
pub mod limiter;
pub mod oracle;
pub mod orders;
pub mod replay;
pub mod report;
pub mod rule;
pub mod score;
pub mod suite;
pub mod take;
pub mod traffic;
pub mod verdict;
pub mod worker;

mod cli;

pub use cli::main;
