//! Arguments of several commands: where, how thoroughly, and in what form.

use std::path::PathBuf;

use clap::Args;

use crate::limiter::Limiter;

/// Where.
#[derive(Clone, Debug, Args)]
pub(super) struct Where {
    /// The Redis to use, with an empty database: redis://[user:password@]host[:port][/db] or unix:///path
    #[arg(long, value_name = "URL")]
    pub(super) redis: Option<String>,
    /// Use that database although it is not empty. Only keys of the comparison's own are written and removed
    #[arg(long, requires = "redis")]
    pub(super) shared: bool,
}

/// How thoroughly.
#[derive(Clone, Debug, Args)]
pub(super) struct Run {
    #[command(flatten)]
    pub(super) place: Where,
    /// End within a minute: fewer traffics, less time for each
    #[arg(long)]
    pub(super) quick: bool,
    /// Only these limiters
    #[arg(long, value_name = "LIMITER", value_delimiter = ',')]
    pub(super) only: Vec<Limiter>,
    /// Only these traffics
    #[arg(long, value_name = "TRAFFIC", value_delimiter = ',')]
    pub(super) traffic: Vec<String>,
    /// Draw what is drawn at random from this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Play each traffic so often: figures are then the median, with the smallest and the largest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) workers: u32,
    /// Leave costs out: accuracy only
    #[arg(long)]
    pub(super) no_costs: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// In what form.
#[derive(Clone, Debug, Args)]
pub(super) struct Output {
    /// Answer in JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Write a page for the browser there
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}
