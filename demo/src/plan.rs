//! What the demo limits, and how hard it asks.

use std::fmt::Write;

use crate::{
    clock::{Micros, SECOND},
    protocol::{BucketId, Order, Pace},
};

/// Worker processes.
pub(crate) const WORKERS: usize = 4;
/// The refill period, in ms.
const TICK_MILLIS: u64 = 100;
/// The refill period.
pub(crate) const TICK: Micros = TICK_MILLIS * 1_000;

/// A limit of the demo.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    /// One bucket each; none for a limit with one bucket for all.
    pub(crate) keys: &'static [&'static str],
    pub(crate) capacity: u64,
    /// Tokens a second.
    pub(crate) rate: u64,
    /// The workers together ask for so many times the rate.
    pub(crate) load: f64,
}

/// The limits at the start. Three are asked for three times what they allow. One is besieged: the workers answer for it
/// from memory. The last is asked for half of what it allows, and denies nothing.
pub(crate) const LIMITS: [Limit; 5] = [
    Limit { name: "api", keys: &[], capacity: 100, rate: 50, load: 3.0 },
    Limit { name: "mail", keys: &[], capacity: 20, rate: 100, load: 3.0 },
    Limit { name: "user", keys: &["ada", "bob", "cleo", "dan"], capacity: 10, rate: 5, load: 3.0 },
    Limit { name: "login", keys: &["eve"], capacity: 5, rate: 1, load: 80.0 },
    Limit { name: "page", keys: &[], capacity: 200, rate: 400, load: 0.5 },
];

/// The limit whose rate is raised half way.
pub(crate) const RAISED: &str = "api";
/// Its rate from then on, in tokens a second.
pub(crate) const RAISED_RATE: u64 = 200;

// === impl Limit ===

impl Limit {
    /// Its buckets.
    pub(crate) fn buckets(&self) -> Vec<BucketId> {
        let bucket = |key: Option<&str>| BucketId { limit: self.name.into(), key: key.map(Into::into) };
        if self.keys.is_empty() {
            vec![bucket(None)]
        } else {
            self.keys.iter().map(|key| bucket(Some(key))).collect()
        }
    }

    /// What one worker is to ask of it.
    pub(crate) fn orders(&self, worker: usize) -> impl Iterator<Item = Order> + use<> {
        let per_second = self.rate as f64 * self.load / WORKERS as f64;
        let pace = Pace { per_second, delay: worker as f64 / WORKERS as f64 };
        self.buckets().into_iter().map(move |bucket| Order { bucket, pace })
    }

    /// The time one token takes to come.
    pub(crate) fn token_time(&self) -> Micros {
        SECOND.div_ceil(self.rate)
    }
}

/// The limits, with the raised rate.
pub(crate) fn raised() -> [Limit; LIMITS.len()] {
    LIMITS.map(|limit| if limit.name == RAISED { Limit { rate: RAISED_RATE, ..limit } } else { limit })
}

/// The daemon's `config.toml` for these limits.
pub(crate) fn config(redis_url: &str, limits: &[Limit]) -> String {
    let mut text = format!("[redis]\nurl = \"{redis_url}\"\n\n[daemon]\ntick = \"{TICK_MILLIS}ms\"\n");
    for Limit { name, keys, capacity, rate, .. } in limits {
        let keyed = if keys.is_empty() { "" } else { "keyed = true\n" };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[limit.{name}]\n{keyed}capacity = {capacity}\nrate = \"{rate}/s\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workers_together_ask_for_the_load_of_a_limit() {
        for limit in raised() {
            for bucket in limit.buckets() {
                let orders = (0..WORKERS).flat_map(|worker| limit.orders(worker));
                let asked: f64 =
                    orders.filter(|order| order.bucket == bucket).map(|order| order.pace.per_second).sum();
                assert_eq!(asked, limit.load * limit.rate as f64);
            }
        }
    }

    #[test]
    fn the_raise_changes_one_line_of_the_config() {
        let (before, after) = (config("unix:///r", &LIMITS), config("unix:///r", &raised()));
        let changed: Vec<_> =
            before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
        assert_eq!(changed, [("rate = \"50/s\"", "rate = \"200/s\"")]);
        assert_eq!(before.lines().count(), after.lines().count());
    }
}
