//! The limits of the demo, and the load on them.

use std::fmt::Write;

use topup_lab::clock::{Micros, SECOND};

use crate::protocol::{BucketNumber, Order};

/// Worker processes.
pub(crate) const WORKERS: usize = 4;

/// A limit of the demo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    /// A bucket for each key. A limit without keys has one bucket.
    pub(crate) keys: &'static [&'static str],
    pub(crate) capacity: u64,
    /// Tokens a second.
    pub(crate) rate: u64,
    /// The workers together ask for `load` times the rate.
    pub(crate) load: f64,
}

/// The limits at the start. Three are asked for three times what they allow. `login` is asked 80 times as often as it
/// allows, so the workers answer from memory. `page` is asked for half of what it allows, and denies nothing.
pub(crate) const LIMITS: [Limit; 5] = [
    Limit { name: "api", keys: &[], capacity: 100, rate: 50, load: 3.0 },
    Limit { name: "mail", keys: &[], capacity: 20, rate: 100, load: 3.0 },
    Limit { name: "user", keys: &["ada", "bob", "cleo", "dan"], capacity: 10, rate: 5, load: 3.0 },
    Limit { name: "login", keys: &["eve"], capacity: 5, rate: 1, load: 80.0 },
    Limit { name: "page", keys: &[], capacity: 200, rate: 400, load: 0.5 },
];

/// The limit whose rate is raised half way, with its rate from then on.
pub(crate) const RAISED: Limit = Limit { rate: 200, ..LIMITS[0] };
/// The limits from then on.
pub(crate) const RAISED_LIMITS: [Limit; LIMITS.len()] = [RAISED, LIMITS[1], LIMITS[2], LIMITS[3], LIMITS[4]];

/// All buckets: limit and key.
pub(crate) fn buckets() -> Vec<(&'static str, Option<&'static str>)> {
    let of = |limit: Limit| match limit.keys {
        [] => vec![(limit.name, None)],
        keys => keys.iter().map(|key| (limit.name, Some(*key))).collect(),
    };
    LIMITS.into_iter().flat_map(of).collect()
}

/// The daemon's `config.toml` for `limits`.
pub(crate) fn config(redis_url: &str, limits: &[Limit]) -> String {
    let mut text = format!("[redis]\nurl = \"{redis_url}\"\n");
    for Limit { name, keys, capacity, rate, .. } in limits {
        let keyed = if keys.is_empty() { "" } else { "keyed = true\n" };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[limit.{name}]\n{keyed}capacity = {capacity}\nrate = \"{rate}/s\"\n");
    }
    text
}

/// The load of one worker on all buckets of `limits`.
pub(crate) fn orders(limits: &[Limit], worker: usize) -> Vec<Order> {
    let of = |limit: &Limit| {
        let per_second = limit.rate as f64 * limit.load / WORKERS as f64;
        let delay = worker as f64 / WORKERS as f64;
        limit.buckets().map(move |bucket| Order { bucket, per_second, delay }).collect::<Vec<_>>()
    };
    limits.iter().flat_map(of).collect()
}

// === impl Limit ===

impl Limit {
    /// Its buckets.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = BucketNumber> + use<> {
        let name = self.name;
        buckets()
            .into_iter()
            .enumerate()
            .filter(move |(_, (limit, _))| *limit == name)
            .map(|(number, _)| number)
    }

    /// The time in which one token comes.
    pub(crate) fn token_time(&self) -> Micros {
        SECOND.div_ceil(self.rate)
    }

    /// Its rate as text.
    pub(crate) fn rate_text(&self) -> String {
        match self.keys.len() {
            0 | 1 => format!("{}/s", self.rate),
            keys => format!("{keys} x {}/s", self.rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workers_together_ask_for_the_load_of_a_limit() {
        let all: Vec<Order> = (0..WORKERS).flat_map(|worker| orders(&RAISED_LIMITS, worker)).collect();
        for limit in &RAISED_LIMITS {
            for bucket in limit.buckets() {
                let orders = all.iter().filter(|order| order.bucket == bucket);
                let asked: f64 = orders.map(|order| order.per_second).sum();
                assert_eq!(asked, limit.load * limit.rate as f64);
            }
        }
        assert_eq!(buckets()[2..4], [("user", Some("ada")), ("user", Some("bob"))]);
    }

    #[test]
    fn the_raise_changes_one_line_of_the_config() {
        let (before, after) = (config("unix:///r", &LIMITS), config("unix:///r", &RAISED_LIMITS));
        let changed: Vec<_> =
            before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
        assert_eq!(changed, [("rate = \"50/s\"", "rate = \"200/s\"")]);
        assert_eq!(before.lines().count(), after.lines().count());
    }
}
