//! The result of a replayed trace.

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use crate::{limiter::Limiter, rule::Rule};

/// The result of a replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// The name of the file.
    pub file: String,
    /// The rule that was tried.
    pub rule: Rule,
    /// Length of the trace, in s.
    pub seconds: f64,
    /// Keys in it.
    pub keys: usize,
    /// Factor by which the replay was faster. The rate was as much faster, so decisions are the same.
    pub speed: u64,
    /// The decisions of a perfect limiter of each kind.
    pub outcomes: Vec<Outcome>,
    /// Costs of each limiter.
    pub costs: Vec<Paid>,
}

/// Costs of a limiter under a trace.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Paid {
    /// The limiter.
    pub limiter: Limiter,
    /// CPU µs of the whole server per decision.
    pub cpu: f64,
    /// µs in commands per decision.
    pub command: f64,
}
