//! Accuracy and cost of rate limiters. The algorithms of topup and the usual scripts get the same traffic on one real
//! Redis. An exact oracle scores them.

pub mod advise;
pub mod comparison;
pub mod cost;
pub mod fixture;
pub mod limiter;
pub mod oracle;
pub mod orders;
pub mod penalty;
pub mod replay;
pub mod report;
pub mod rule;
pub mod score;
pub mod simulate;
pub mod suite;
pub mod take;
pub mod traffic;
pub mod verdict;
pub mod worker;

mod cli;

pub use cli::main;
