//! The costs of each limiter in Redis.

mod crossover;
mod memory;
mod saturation;

use serde::{Deserialize, Serialize};

pub use crossover::{Crossover, Curve, measure as crossover, price};
pub use memory::{Memory, Upkeep, measure as memory, upkeep};
pub use saturation::{Load, Saturation, measure as saturation};

use crate::limiter::Limiter;

/// Lengths of the parts of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Length of a saturation, in s.
    pub saturate: f64,
    /// Length of a point of the crossover, in s.
    pub point: f64,
    /// Keys of the crossover.
    pub keys: u32,
}

/// The commands that the workers and the refiller of `limiter` send. Commands that scripts call are a part of the script.
pub const fn commands(limiter: Limiter) -> &'static [&'static str] {
    match limiter {
        Limiter::FixedRacy => &["get", "incrby", "pexpire"],
        Limiter::LogPipelined => &["exec", "multi"],
        Limiter::LeakyTwoKeys => &["get", "setex", "set"],
        Limiter::TickUnclamped => &["decrby", "mget", "incrby"],
        // Refills are scripts too, and a bare DECR is no part of any script.
        Limiter::TickClamped | Limiter::LazyLua | Limiter::LazyWorkerClock | Limiter::FixedLua => {
            &["evalsha"]
        }
        _ => &["decr", "decrby", "evalsha", "exists"],
    }
}
