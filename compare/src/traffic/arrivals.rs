//! When who asks for how much.

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

use super::{Arrival, Keys, Pattern, Traffic};
use crate::rule::TICK;
use topup_lab::clock::Micros;

/// Time from the attack to the edge of a window, on both sides. A busy machine may be as late.
const EDGE: Micros = 30_000;
/// After the beginning of a window, the take that opens it where windows begin with their first take.
const OPENING: Micros = 2_000;
/// Between two takes of a burst.
const APART: Micros = 50;
/// Takes of each worker's burst on a nearly full bucket, ...
const EACH: u64 = 48;
/// ... so long after each has taken one token, ...
const LATER: [Micros; 3] = [60_000, 90_000, 90_000];
/// ... within so long ...
const OVER: [Micros; 3] = [0, 90_000, 300_000];
/// ... and followed by so many of all workers within so long: more than the bucket holds and gets meanwhile.
const REST: u64 = 1_400;
const REST_OVER: Micros = 300_000;
/// From one such burst to the next: the bucket is full again.
const NEAR_FULL_EVERY: Micros = 2_000_000;

/// All takes of `traffic`, in order.
pub fn arrivals(traffic: &Traffic, seed: u64) -> Vec<Arrival> {
    let mut random = StdRng::seed_from_u64(seed ^ fingerprint(&traffic.name));
    if let Pattern::Trace(trace) = &traffic.pattern {
        return trace.iter().map(|&(at, key, count)| Arrival { at, key, count }).collect();
    }
    if traffic.pattern == Pattern::Tenants {
        return tenants(traffic);
    }
    let zipf = Zipf::new(traffic.keys);
    let mut turn = 0;
    let mut take = |at: Micros, random: &mut StdRng| {
        turn += 1;
        let key = match traffic.keys {
            Keys::Even(keys) => turn % keys,
            Keys::Zipf(_) => zipf.draw(random),
        };
        Arrival { at, key, count: random.random_range(1..=traffic.most) }
    };
    let mut arrivals: Vec<Arrival> =
        instants(traffic, &mut random).into_iter().map(|at| take(at, &mut random)).collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

fn instants(traffic: &Traffic, random: &mut StdRng) -> Vec<Micros> {
    let (rule, time) = (traffic.rule, traffic.time);
    // µs between two takes at the rate: as many tokens as are taken on average come in it.
    let gap = rule.micros as f64 / rule.tokens as f64 * f64::from(traffic.most).midpoint(1.0);
    match traffic.pattern {
        Pattern::Steady(load) => spaced(0, time, gap / load),
        Pattern::Poisson(load) => {
            let mut at = 0.0;
            let next = || {
                at -= random.random_range(f64::EPSILON..1.0_f64).ln() * gap / load;
                Some(at as Micros)
            };
            std::iter::from_fn(next).take_while(|at| *at < time).collect()
        }
        Pattern::OnOff(load, on, off) => {
            let bursts = (0..time).step_by((on + off) as usize);
            bursts.flat_map(|begin| spaced(begin, (begin + on).min(time), gap / load)).collect()
        }
        Pattern::Herd(every) => {
            let herds = (0..time).step_by(every as usize);
            herds.flat_map(|at| std::iter::repeat_n(at, 4 * rule.capacity as usize)).collect()
        }
        Pattern::WindowEdge => {
            let (window, capacity) = (rule.window(), rule.capacity as usize);
            // A window of rest after both, so that each attack begins with an unused one.
            let attack = |begin: Micros| {
                let end = begin + window;
                std::iter::once(begin + OPENING)
                    .chain(burst(end - EDGE, capacity - 1))
                    .chain(burst(end + EDGE, capacity))
            };
            let begins = (0..time.saturating_sub(2 * window)).step_by(3 * window as usize);
            begins.flat_map(attack).collect()
        }
        Pattern::TickEdge => {
            let mut at = 0;
            let mut all = Vec::new();
            for turn in 0.. {
                if at >= time {
                    break;
                }
                all.extend(burst(at, 2 * rule.capacity as usize));
                at += rule.window() - TICK + turn % 8 * TICK / 8;
            }
            all
        }
        Pattern::NearFull(workers) => {
            let mut all = Vec::new();
            for ((begin, later), over) in (0..time).step_by(NEAR_FULL_EVERY as usize).zip(LATER).zip(OVER) {
                let (takes, from) = (u64::from(workers) * EACH, begin + later);
                all.extend(burst(begin, workers as usize));
                // In turn, so that each worker has as many.
                all.extend((0..takes).map(|turn| from + turn * over / takes));
                all.extend((0..REST).map(|turn| from + over + turn * REST_OVER / REST));
            }
            all
        }
        Pattern::Certain | Pattern::Promises | Pattern::Tenants | Pattern::Trace(_) => Vec::new(),
    }
}

fn tenants(traffic: &Traffic) -> Vec<Arrival> {
    let (rule, time) = (traffic.rule, traffic.time);
    let gap = rule.micros as f64 / rule.tokens as f64;
    let of =
        |key, from, gap| spaced(from, time, gap).into_iter().map(move |at| Arrival { at, key, count: 1 });
    let all = of(0, 0, gap / 3.0).chain(of(1, time / 2, gap / 2.0)).chain(of(2, 0, gap * 16.0));
    let mut all: Vec<Arrival> = all.collect();
    all.sort_by_key(|arrival| arrival.at);
    all
}

fn spaced(from: Micros, until: Micros, gap: f64) -> Vec<Micros> {
    let count = ((until - from) as f64 / gap) as u64;
    (0..count).map(|turn| from + (turn as f64 * gap) as Micros).collect()
}

fn burst(at: Micros, count: usize) -> impl Iterator<Item = Micros> {
    (0..count as Micros).map(move |turn| at + turn * APART)
}

/// FNV-1a, so that each traffic draws numbers of its own from one seed.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Draws keys, the n-th in proportion to 1/n.
struct Zipf(Vec<f64>);

// === impl Zipf ===

impl Zipf {
    fn new(keys: Keys) -> Self {
        let Keys::Zipf(count) = keys else { return Self(Vec::new()) };
        let mut sum = 0.0;
        let parts = (1..=count).map(|n| {
            sum += 1.0 / f64::from(n);
            sum
        });
        Self(parts.collect())
    }

    fn draw(&self, random: &mut impl Rng) -> u32 {
        let total = self.0.last().copied().unwrap_or(1.0);
        let drawn = random.random_range(0.0..total);
        self.0.partition_point(|sum| *sum <= drawn) as u32
    }
}
