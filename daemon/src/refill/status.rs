//! The engine's status, for the log, systemd and the command line.

use std::time::Duration;

use topup_wire::connection::Cause;

/// The engine's status at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// Whether a pass over every published shard has ended once.
    pub ready: bool,
    /// Whether Redis answers.
    pub connected: bool,
    /// The reason why it does not.
    pub cause: Option<Cause>,
    /// The latency of the last heartbeat while Redis is slow.
    pub slow: Option<Duration>,
    /// The generation this daemon refills.
    pub generation: u64,
    /// Token bucket shards being refilled.
    pub shards: usize,
    /// Buckets credited since the start.
    pub credited: u64,
    /// The time by which the last pass over a shard was late.
    pub lag: Duration,
    /// Turns of the loop since the start. It rises whether Redis answers or not, so it shows that the loop is not
    /// stuck.
    pub turns: u64,
}
