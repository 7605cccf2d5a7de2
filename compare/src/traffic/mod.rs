//! The traffic that limiters are compared under. Seeded: the same seed asks for the same keys at the same instants.

mod arrivals;
mod certain;
mod list;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use arrivals::arrivals;
pub use certain::{MARGIN as CERTAIN_MARGIN, plan as certain_plan};
pub use list::all;
use topup_lab::clock::Micros;

use crate::rule::Rule;

/// One kind of traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// As on the command line.
    pub name: String,
    /// A short description.
    pub says: String,
    /// The rule of each limiter.
    pub rule: Rule,
    /// The keys that are asked for.
    pub keys: Keys,
    /// The instants of the takes.
    pub pattern: Pattern,
    /// The most tokens of a take; each take draws from 1 up to this.
    pub most: u32,
    /// The duration.
    pub time: Micros,
    /// Whether the workers' clocks are wrong, by up to two seconds either way.
    pub skewed: bool,
    /// Worker processes, where it takes more or fewer than are chosen.
    pub workers: Option<u32>,
    /// The fault meanwhile.
    pub fault: Fault,
    /// Whether it is part of a quick run.
    pub quick: bool,
}

/// The spread of takes over keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Keys {
    /// In turn over so many.
    Even(u32),
    /// Over so many, of which the n-th is asked in proportion to 1/n.
    Zipf(u32),
}

/// When takes are asked for. A load of 2 is twice the rate of one bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pattern {
    /// Evenly spaced.
    Steady(f64),
    /// At random, independent of each other.
    Poisson(f64),
    /// At a load, for a time, then not at all for a time.
    OnOff(f64, Micros, Micros),
    /// Four buckets' worth at one instant, again and again.
    Herd(Micros),
    /// A window's worth just before the end of a window, and just after.
    WindowEdge,
    /// A bucket's worth, again when it has almost come back, with the pause moved through a tick.
    TickEdge,
    /// One take of each worker, then a burst of all of them on a bucket that is full or nearly, then more than is left.
    /// This load shows takes above the limit if workers believe a full bucket to be below full.
    NearFull(u32),
    /// The first key asks for three times the rate. The second joins it at half the time and asks for twice the rate. The
    /// third asks for a sixteenth of it all the time.
    Tenants,
    /// Takes far from the instants at which the answer changes, so that every decision is certain.
    Certain,
    /// Each key by one taker, who comes back when told to.
    Promises,
    /// As in a trace: instants since the beginning, keys and tokens.
    Trace(Vec<(Micros, u32, u32)>),
}

/// A fault in the course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Nothing.
    None,
    /// The daemons and refilling tasks are killed after a third of the time, and started again after two.
    DaemonAway,
    /// The daemons and refilling tasks run twice.
    TwoDaemons,
    /// Redis is restarted at half the time, empty.
    RedisRestart,
}

/// A take to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, since the beginning.
    pub at: Micros,
    /// Whose bucket.
    pub key: u32,
    /// Tokens.
    pub count: u32,
}

// === impl Pattern ===

impl Pattern {
    /// Whether each key is asked by one taker, and the next take depends on the answer or time of the one before.
    pub const fn is_in_turn(&self) -> bool {
        matches!(self, Self::Certain | Self::Promises)
    }
}

// === impl Traffic ===

impl Traffic {
    /// The number of keys.
    pub const fn key_count(&self) -> u32 {
        match self.keys {
            Keys::Even(count) | Keys::Zipf(count) => count,
        }
    }

    /// Takes a second that it asks of each limiter, roughly.
    pub fn asks_per_second(&self) -> f64 {
        let rate = self.rule.rate();
        match &self.pattern {
            Pattern::Steady(load) | Pattern::Poisson(load) => {
                load * rate / f64::from(self.most).midpoint(1.0)
            }
            Pattern::OnOff(load, ..) => load * rate,
            Pattern::Herd(every) => 4e6 * self.rule.capacity as f64 / *every as f64,
            Pattern::WindowEdge | Pattern::TickEdge => 2.0 * rate,
            Pattern::Tenants => 4.0 * rate,
            // The rate of its bursts, not of its pauses.
            Pattern::NearFull(workers) => 2_000.0 + 100.0 * f64::from(*workers),
            Pattern::Certain | Pattern::Promises => f64::from(self.key_count()) * 40.0,
            Pattern::Trace(trace) => trace.len() as f64 * 1e6 / self.time.max(1) as f64,
        }
    }
}
