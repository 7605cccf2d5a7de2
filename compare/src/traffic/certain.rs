//! Takes whose decisions are certain. Every kind of perfect limiter gives the same answer, even if a take is late by a few
//! hundredths of a second. Decisions can therefore be compared one by one, between limiters and runs.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use topup_lab::clock::Micros;

use super::{Arrival, Traffic};
use crate::oracle::{Ideal, Oracle, Perfect};

/// Delay of a take that does not change its answer.
pub const MARGIN: Micros = 40_000;
/// The shortest pause between two takes of a key: the first has been answered by then.
const PAUSE: Micros = 5_000;
/// Instants are counted from far enough that all before the beginning are positive.
const ORIGIN: Micros = 1 << 40;

/// The takes of each key, with the right answer of a limiter that is meant to be `ideal`.
pub fn plan(traffic: &Traffic, seed: u64, ideal: Ideal) -> Vec<Vec<(Arrival, bool)>> {
    let index = Ideal::ALL.iter().position(|other| *other == ideal).unwrap_or(0);
    let of_key = |key: u32| {
        let drawn = draw(traffic, seed.wrapping_add(u64::from(key)), key);
        drawn.into_iter().map(|(arrival, answers)| (arrival, answers[index])).collect()
    };
    (0..traffic.key_count()).map(of_key).collect()
}

/// Draws takes for one key, each with the answer of every ideal.
fn draw(traffic: &Traffic, seed: u64, key: u32) -> Vec<(Arrival, [bool; Ideal::ALL.len()])> {
    let mut random = StdRng::seed_from_u64(seed);
    // Windows of Redis's clock begin with the run: it is started at a whole second.
    let offset = -(ORIGIN as i64);
    let mut perfect =
        Ideal::ALL.map(|ideal| Perfect::new(&Oracle { ideal, rule: traffic.rule, offset, change: None }));
    let mut drawn = Vec::new();
    let mut at = ORIGIN + MARGIN + random.random_range(0..MARGIN);
    while at < ORIGIN + traffic.time {
        let count = random.random_range(1..=traffic.most);
        let clear = perfect.iter().all(|perfect| {
            let says = |at| perfect.clone().take(at, u64::from(count));
            says(at - MARGIN) == says(at + MARGIN)
        });
        if clear {
            let mut answers = perfect.iter_mut().map(|perfect| perfect.take(at, u64::from(count)));
            let answers = std::array::from_fn(|_| answers.next().unwrap_or(false));
            drawn.push((Arrival { at: at - ORIGIN, key, count }, answers));
        }
        at += PAUSE + if random.random_bool(0.5) { 0 } else { random.random_range(0..4 * MARGIN) };
    }
    drawn
}
