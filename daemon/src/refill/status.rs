//! The engine's status, for the log, systemd and the command line.

use std::time::Duration;

use topup_wire::{connection::Cause, schema::NewerSchema};

/// The engine's status at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// Whether a pass over every published shard has ended once.
    pub ready: bool,
    /// Whether Redis answers.
    pub connected: bool,
    /// The schema in Redis, if this version does not know it: nothing is published or refilled.
    pub newer_schema: Option<NewerSchema>,
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
    /// Corrupt keys repaired since the start.
    pub repaired: u64,
    /// The time by which the last pass over a shard was late.
    pub lag: Duration,
    /// The instant since which the config on disk is refused, in µs of Redis `TIME`.
    pub refused_since: Option<u64>,
    /// Whether Redis has said that nothing is published, and this daemon has no config to publish.
    pub nothing_published: bool,
    /// Turns of the loop since the start. It rises whether Redis answers or not, so it shows that the loop is not
    /// stuck.
    pub turns: u64,
    /// Limits that are refused or contested, and other daemons with another version of the config: a line each.
    pub notes: Vec<String>,
}
