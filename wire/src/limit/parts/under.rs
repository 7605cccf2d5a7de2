//! The parts under the terms of their limit: each one's share, and the time between two deals of the pool.

use super::{Part, Parts, PartsError};
use crate::{
    bucket::Pace,
    limit::{Capacity, MAX_INTERVAL, MAX_TOKENS},
};

/// The shortest time between two deals of the pool, in µs: for a limit of few parts, and for each part.
const SHORTEST_PERIOD: [u64; 2] = [1_000, 50];

// === impl Parts ===

impl Parts {
    /// Each part of a limit with this capacity and rate.
    ///
    /// # Errors
    /// [`PartsError::TooSmall`], or [`PartsError::Rate`].
    pub fn under(&self, capacity: Capacity, pace: Pace) -> Result<Vec<Part>, PartsError> {
        let all: u64 = self.iter().map(|(_, weight)| weight).sum();
        let part = |(name, weight): (&str, u64)| {
            let held = u128::from(capacity.get()) * u128::from(weight) / u128::from(all.max(1));
            if held == 0 {
                let least = u128::from(all).div_ceil(u128::from(weight));
                return Err(PartsError::TooSmall { name: name.to_owned(), least });
            }
            let (n, p) = (u128::from(pace.n) * u128::from(weight), u128::from(pace.p) * u128::from(all));
            let common = greatest_common_divisor(n, p);
            let (n, p) = (n / common, p / common);
            if n == 0 || n > u128::from(MAX_TOKENS) || p > MAX_INTERVAL.as_micros() {
                return Err(PartsError::Rate(name.to_owned()));
            }
            // At most 2^53 each.
            Ok(Part {
                name: name.to_owned(),
                weight,
                capacity: held as u64,
                pace: Pace { n: n as u64, p: p as u64 },
            })
        };
        self.iter().map(part).collect()
    }

    /// The time between two deals of the pool, in µs. It is a tick, or if that is less, half the time in which the whole
    /// rate fills the smallest part. Many parts need more.
    ///
    /// # Errors
    /// The same as of [`under`](Self::under).
    pub fn period(&self, capacity: Capacity, pace: Pace, tick: u64) -> Result<u64, PartsError> {
        let smallest = self.under(capacity, pace)?.iter().map(|part| part.capacity).min().unwrap_or(1);
        let half = u128::from(smallest) * u128::from(pace.p) / (2 * u128::from(pace.n.max(1)));
        let [few, each] = SHORTEST_PERIOD;
        Ok(few.max(each * self.iter().len() as u64).max(tick.min(u64::try_from(half).unwrap_or(u64::MAX))))
    }
}

const fn greatest_common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    if one == 0 { 1 } else { one }
}
