//! The rule of every limiter: tokens at once, and tokens in the long run.

use serde::{Deserialize, Serialize};
use topup_wire::limit::Rate;

use topup_lab::clock::Micros;

/// The tick of the daemon, and of every task that refills.
pub const TICK: Micros = 100_000;

/// `capacity` tokens at once, `tokens` every `micros` in the long run.
///
/// For limiters that think in windows it says: `capacity` in a window of [`Rule::window`], which is the same rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The most tokens at once.
    pub capacity: u64,
    /// Tokens per span.
    pub tokens: u64,
    /// µs per span.
    pub micros: u64,
}

// === impl Rule ===

impl Rule {
    /// `capacity` at once and `tokens` a second.
    pub const fn per_second(capacity: u64, tokens: u64) -> Self {
        Self { capacity, tokens, micros: 1_000_000 }
    }

    /// The same from a [`Rate`].
    pub const fn new(capacity: u64, rate: Rate) -> Self {
        // As written: an interval of a config is a whole number of ms, in lowest terms it need not be.
        Self { capacity, tokens: rate.tokens(), micros: rate.interval().as_micros() as u64 }
    }

    /// The rate, `times` as fast: for a trace that is replayed as much faster.
    #[must_use]
    pub const fn sped_up(self, times: u64) -> Self {
        Self { tokens: self.tokens * times, ..self }
    }

    /// Tokens a second.
    pub fn rate(self) -> f64 {
        self.tokens as f64 * 1e6 / self.micros as f64
    }

    /// Tokens that come in a time.
    pub fn credit(self, time: Micros) -> f64 {
        time as f64 * self.tokens as f64 / self.micros as f64
    }

    /// The time in which a whole bucket comes, in µs: at least one.
    pub const fn window(self) -> Micros {
        let exact = self.capacity as u128 * self.micros as u128 / self.tokens as u128;
        if exact == 0 {
            1
        } else if exact > u64::MAX as u128 {
            u64::MAX
        } else {
            exact as u64
        }
    }

    /// The time in which one token comes, in µs: at least one.
    pub const fn token(self) -> Micros {
        if self.micros < self.tokens { 1 } else { self.micros / self.tokens }
    }

    /// The rate as `config.toml` says it.
    pub fn rate_text(self) -> String {
        if self.micros.is_multiple_of(1_000_000) {
            format!("{}/{}s", self.tokens, self.micros / 1_000_000)
        } else {
            format!("{}/{}ms", self.tokens, self.micros / 1_000)
        }
    }
}
