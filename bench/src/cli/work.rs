//! The options of a worker process.

use clap::Args;

use crate::{limiter::kind::Limiter, rules::Rule};

/// Options of a worker process.
#[derive(Clone, Debug, Args)]
pub(crate) struct Work {
    #[arg(long)]
    pub(crate) redis: String,
    #[arg(long)]
    pub(crate) limiter: Limiter,
    #[arg(long)]
    pub(crate) rule: Rule,
    #[arg(long)]
    pub(crate) keys: usize,
    #[arg(long, default_value_t = 1)]
    pub(crate) tasks: usize,
    /// Tokens of each take
    #[arg(long, default_value_t = 1)]
    pub(crate) tokens: u64,
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Each take is also of one bucket for all keys
    #[arg(long)]
    pub(crate) and_all: bool,
    /// Seed of an open loop
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Number of this process in an open loop
    #[arg(long, default_value_t = 0)]
    pub(crate) part: u32,
    /// Number of processes in an open loop
    #[arg(long, default_value_t = 1)]
    pub(crate) parts: u32,
}
