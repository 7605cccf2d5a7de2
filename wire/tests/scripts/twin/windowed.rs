//! Algorithms that count tokens within windows of time.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};
use topup_twin::{Entry, Record, SlidingCounter, SlidingLog};
use topup_wire::limit::{MAX_RULES, MAX_WINDOW_TOKENS, Rule, Supply, Terms, Windows};

use super::script_only::{Kept, agree};
use crate::{generators::any_size, server::Content};

#[tokio::test]
async fn the_sliding_counter_does_what_its_twin_does() {
    agree::<SlidingCounter>().await;
}

#[tokio::test]
async fn the_sliding_window_does_what_its_twin_does() {
    agree::<SlidingLog>().await;
}

/// Up to so many rules.
pub(super) fn windows(rng: &mut StdRng, most: usize) -> Terms {
    let rules: Vec<Rule> = (0..rng.random_range(1..=most)).map(|_| rule(rng)).collect();
    // Two of the same length are none.
    let windows = Windows::new(&rules, rng.random_bool(0.5)).unwrap_or_else(|_| {
        let one = Windows::new(&rules[..1], false);
        one.unwrap()
    });
    Terms { capacity: windows.capacity(), supply: Supply::Windows(windows) }
}

fn rule(rng: &mut StdRng) -> Rule {
    let tokens =
        if rng.random_bool(0.7) { rng.random_range(1..=20) } else { any_size(rng, MAX_WINDOW_TOKENS).max(1) };
    let micros = if rng.random_bool(0.5) {
        [1_000, 1_000_000, 60_000_000, 86_400_000_000, 999_983][rng.random_range(0..5)]
    } else {
        any_size(rng, 366 * 86_400_000_000).max(1_000)
    };
    Rule::new(tokens, Duration::from_micros(micros)).unwrap()
}

/// A part of a window, about one, or several.
pub(super) fn about_a_window(record: &Record, rng: &mut StdRng) -> i64 {
    let rules = record.windows.unwrap();
    let length = rules.rules()[rng.random_range(0..rules.rules().len())].micros();
    match rng.random_range(0..4) {
        0 => rng.random_range(0..5),
        1 => any_size(rng, 3 * length) as i64,
        2 => length as i64 + rng.random_range(-2_000..2_000),
        _ => rng.random_range(0..length) as i64,
    }
}

fn earlier(instant: u64, by: i64) -> u64 {
    instant.saturating_add_signed(-by)
}

impl Kept for SlidingCounter {
    fn terms(rng: &mut StdRng) -> Terms {
        windows(rng, 1)
    }

    fn content(&self) -> Content {
        Content::Numbers([self.begun, self.over, self.taken, self.before].map(|number| number as i64).into())
    }

    fn earlier(&self, by: i64) -> Self {
        Self { begun: earlier(self.begun, by), over: earlier(self.over, by), ..*self }
    }

    fn some_time(record: &Record, rng: &mut StdRng) -> i64 {
        about_a_window(record, rng)
    }
}

impl Kept for SlidingLog {
    fn terms(rng: &mut StdRng) -> Terms {
        windows(rng, MAX_RULES)
    }

    fn content(&self) -> Content {
        let row = |entry: &Entry| match entry.tokens {
            1 => vec![entry.at, entry.total],
            tokens => vec![entry.at, entry.total, tokens],
        };
        let numbers = |row: Vec<u64>| row.into_iter().map(|number| number as i64).collect();
        Content::Rows(self.0.iter().map(row).map(numbers).collect())
    }

    fn earlier(&self, by: i64) -> Self {
        let entries = self.0.iter().map(|entry| Entry { at: earlier(entry.at, by), ..*entry });
        Self(entries.collect())
    }

    fn some_time(record: &Record, rng: &mut StdRng) -> i64 {
        about_a_window(record, rng)
    }
}
