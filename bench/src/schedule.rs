//! The arrivals of an open-loop load, the same for every limiter with the same seed.

use std::{fmt, str::FromStr, time::Duration};

use anyhow::{Context, ensure};
use topup_lab::Random;

/// A part of a load: takes a second of all processes together, for some seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phase {
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
}

/// A take to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    /// Since the beginning of the first phase.
    pub(crate) at: Duration,
    pub(crate) key: usize,
    /// Index of its phase.
    pub(crate) phase: usize,
}

/// Arrivals at one of several processes: takes at random instants, of keys at random. Takes of a single key come at random
/// instants, too, and from any process.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    random: Random,
    phases: Vec<Phase>,
    keys: usize,
    parts: u32,
    phase: usize,
    /// End of the present phase in seconds.
    end: f64,
    /// Last arrival in seconds.
    at: f64,
}

// === impl Phase ===

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rate, self.seconds)
    }
}

impl FromStr for Phase {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (rate, seconds) = text.split_once(':').context("a phase is RATE:SECONDS")?;
        let (rate, seconds) = (rate.parse()?, seconds.parse()?);
        ensure!(rate > 0.0 && seconds > 0.0, "a phase has a rate and a time");
        Ok(Self { rate, seconds })
    }
}

// === impl Schedule ===

impl Schedule {
    /// Arrivals of `phases` at process `part` of `parts`.
    pub(crate) fn new(phases: &[Phase], keys: usize, seed: u64, part: u32, parts: u32) -> Self {
        let end = phases.first().map_or(0.0, |phase| phase.seconds);
        let random = Random::new(seed.wrapping_mul(1_024).wrapping_add(part.into()));
        Self { random, phases: phases.to_vec(), keys, parts, phase: 0, end, at: 0.0 }
    }
}

impl Iterator for Schedule {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let rate = self.phases.get(self.phase)?.rate / f64::from(self.parts);
            let at = self.at - self.random.part().ln() / rate;
            if at < self.end {
                self.at = at;
                let key = self.random.below(self.keys);
                return Some(Arrival { at: Duration::from_secs_f64(at), key, phase: self.phase });
            }
            // Exponential gaps have no memory: the next phase draws a new one from its beginning.
            self.at = self.end;
            self.phase += 1;
            self.end += self.phases.get(self.phase).map_or(0.0, |phase| phase.seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [Phase; 2] =
        [Phase { rate: 4_000.0, seconds: 5.0 }, Phase { rate: 1_000.0, seconds: 10.0 }];

    fn drawn(seed: u64, part: u32, parts: u32) -> Vec<Arrival> {
        Schedule::new(&PHASES, 100, seed, part, parts).collect()
    }

    #[test]
    fn one_seed_asks_the_same_and_others_do_not() {
        assert_eq!(drawn(7, 0, 4), drawn(7, 0, 4));
        assert_ne!(drawn(7, 0, 4), drawn(8, 0, 4));
        assert_ne!(drawn(7, 0, 4), drawn(7, 1, 4));
    }

    #[test]
    fn all_processes_together_ask_as_often_as_told() {
        let all: Vec<Arrival> = (0..4).flat_map(|part| drawn(3, part, 4)).collect();
        for (phase, expected) in [(0, 20_000_f64), (1, 10_000.0)] {
            let count = all.iter().filter(|arrival| arrival.phase == phase).count() as f64;
            assert!((count - expected).abs() < 5.0 * expected.sqrt(), "{count}");
        }
        let first = |arrival: &&Arrival| arrival.phase == 0;
        assert!(all.iter().filter(first).all(|arrival| arrival.at < Duration::from_secs(5)));
        assert!(all.iter().all(|arrival| arrival.at < Duration::from_secs(15)));
    }

    #[test]
    fn arrivals_are_in_order_at_random_instants_and_keys() {
        let all = drawn(1, 0, 1);
        assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at));
        // A part of 1 − 1/e of exponential gaps is below their mean.
        let gaps: Vec<f64> =
            all[..20_000].windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect();
        let below = gaps.iter().filter(|gap| **gap < 1.0 / 4_000.0).count() as f64 / gaps.len() as f64;
        assert!((below - 0.632).abs() < 0.02, "{below}");
        let mut keys = [0; 100];
        all.iter().for_each(|arrival| keys[arrival.key] += 1);
        assert!(keys.iter().all(|&count| (200..400).contains(&count)), "{keys:?}");
    }

    #[test]
    fn phases_are_read_as_they_are_written() {
        assert!(PHASES.iter().all(|phase| phase.to_string().parse::<Phase>().unwrap() == *phase));
        assert!(["", "5", "a:1", "0:1", "5:-1"].iter().all(|text| text.parse::<Phase>().is_err()));
    }
}
