//! The refill engine: publishes the config, refills published limits, and sends heartbeats.
//!
//! [`Engine`] is the loop. `publication` decides when to publish, `passes` when to refill which shard, and
//! `redis_health` whether Redis answers.

mod at_rest;
mod definitions;
mod ended;
mod engine;
mod engine_loop;
mod engine_settings;
mod eviction;
mod freezes;
mod heal_shard;
mod healing;
mod healing_round;
mod heartbeat;
mod holds;
mod in_flight;
mod latency;
mod limiter;
mod log_throttle;
mod pass_ends;
mod passes;
mod publication;
mod published;
mod reading;
mod redis_health;
mod shard;
mod shard_pass;
mod standing;
mod status;
pub(crate) mod strays;
mod timeouts;

pub use engine::Engine;
pub use engine_settings::{EngineCommand, EngineSettings};
pub(crate) use latency::SLOW;
pub use status::EngineStatus;
