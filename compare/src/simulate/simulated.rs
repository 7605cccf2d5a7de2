//! The decisions that a limit would have made: figures and text.

use std::fmt::Write;

use serde::Serialize;

/// The decisions that a limit would have made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// The limit.
    pub limit: String,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Most tokens of a bucket.
    pub capacity: u64,
    /// Tokens per interval, or per window.
    pub rate: String,
    /// Takes of the trace.
    pub takes: u64,
    /// Keys of the trace.
    pub keys: u64,
    /// The length of the trace, in seconds.
    pub seconds: f64,
    /// Takes that would have been allowed.
    pub allowed: u64,
    /// Takes that would have been denied.
    pub denied: u64,
    /// Denied takes of more tokens than a bucket ever holds.
    pub too_large: u64,
    /// Denied takes of blocked keys; absent without a penalty.
    pub blocked: Option<u64>,
    /// The longest time that a denial would have named, in seconds; absent without one.
    pub longest_retry_after: Option<f64>,
    /// The keys that would have been denied most.
    pub most_denied: Vec<DeniedKey>,
    /// Takes of keys that have not the limit's own terms.
    pub plans: Vec<PlanTakes>,
}

/// Takes of all keys of a plan, or of `exempt` or `deny`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanTakes {
    /// Its name.
    pub plan: String,
    /// Its denied takes.
    pub denied: u64,
    /// All its takes.
    pub takes: u64,
}

/// A key that would have been denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeniedKey {
    /// The key, as the trace names it.
    pub key: String,
    /// Its denied takes.
    pub denied: u64,
    /// All its takes.
    pub takes: u64,
}

// === impl Simulated ===

impl Simulated {
    /// The figures as lines.
    pub fn text(&self) -> String {
        let share = |takes: u64| takes as f64 * 100.0 / self.takes.max(1) as f64;
        let mut text = format!(
            "limit {}: {}, capacity {}, {}\n{} takes of {} keys in {:.1} s\n{} allowed ({:.1} %), {} denied ({:.1} %)",
            self.limit,
            self.algorithm,
            self.capacity,
            self.rate,
            self.takes,
            self.keys,
            self.seconds,
            self.allowed,
            share(self.allowed),
            self.denied,
            share(self.denied),
        );
        if self.too_large > 0 {
            let _ = write!(text, "\n{} of them ask for more than a bucket ever holds", self.too_large);
        }
        if let Some(blocked) = self.blocked {
            let _ = write!(text, "\n{blocked} of them within blocks");
        }
        if let Some(longest) = self.longest_retry_after {
            let _ = write!(text, "\nlongest retry_after {longest:.3} s");
        }
        for PlanTakes { plan, denied, takes } in &self.plans {
            let _ = write!(text, "\n{plan}: {denied} of {takes} takes denied");
        }
        if !self.most_denied.is_empty() {
            text += "\nmost denied";
        }
        for DeniedKey { key, denied, takes } in &self.most_denied {
            let key: String = key.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let _ = write!(text, "\n  {key}  {denied} of {takes}");
        }
        text
    }
}
