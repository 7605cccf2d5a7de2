//! The refill engine: publishes, refills every tick, says that it is alive.

mod engine;
mod freezes;
mod lane;
mod passes;
mod patience;
mod presence;
mod publication;
mod shard;
mod strays;
mod touch;

pub use engine::{Command, Engine, Settings};
pub use presence::Presence;

/// How the engine is doing, for signals, systemd and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether every published bucket has been looked at once.
    pub ready: bool,
    /// Whether Redis answers.
    pub connected: bool,
    /// The generation this daemon refills.
    pub generation: u64,
    /// Token bucket shards being refilled.
    pub shards: usize,
    /// Buckets credited since the start.
    pub credited: u64,
    /// How far the last shard refilled was behind its time.
    pub lag: std::time::Duration,
    /// Counts what was published, changed or not.
    pub applied: u64,
    /// Counts turns of the loop: a sign of life, whatever Redis does.
    pub ticks: u64,
}
