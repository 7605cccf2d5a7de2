//! Every traffic there is.

use topup_lab::clock::Micros;

use super::{Fault, Keys, Pattern, Traffic};
use crate::rule::Rule;

const MS: Micros = 1_000;

/// No whole number of tokens comes in a tick of 100 ms: whoever forgets remainders is found out.
const USUAL: Rule = Rule::per_second(96, 96);

/// All traffics, in the order in which they are played; `seconds` is how long the usual one takes.
pub fn all(seconds: f64) -> Vec<Traffic> {
    let usual = (seconds * 1e6) as Micros;
    let steady = |name, says, load| Traffic::new(name, says, Pattern::Steady(load), usual);
    let faulty = |name, says, fault| Traffic { fault, ..steady(name, says, 2.0) };
    vec![
        steady("steady-0.5", "half the rate, evenly", 0.5),
        steady("steady-1", "the rate, evenly", 1.0),
        steady("steady-2", "twice the rate, evenly", 2.0),
        steady("steady-5", "five times the rate, evenly", 5.0).quick(),
        Traffic::new("poisson", "one and a half times the rate, at random", Pattern::Poisson(1.5), usual),
        Traffic::new(
            "bursts",
            "four times the rate for 0.3 s, then 0.9 s of rest",
            Pattern::OnOff(4.0, 300 * MS, 900 * MS),
            usual,
        ),
        Traffic::new(
            "herd",
            "four buckets' worth at one instant, every 0.7 s, from all workers",
            Pattern::Herd(700 * MS),
            usual,
        )
        .quick(),
        Traffic::new(
            "window-edge",
            "a window's worth at its end, another right after",
            Pattern::WindowEdge,
            usual.max(3_100 * MS),
        )
        .rule(Rule::per_second(50, 50))
        .quick(),
        Traffic::new(
            "tick-edge",
            "two buckets' worth whenever the bucket is almost full, moved through the tick",
            Pattern::TickEdge,
            usual,
        )
        .rule(Rule::per_second(20, 80)),
        near_full(4),
        near_full(8),
        near_full(16),
        near_full(64),
        Traffic::new(
            "coarse-tick",
            "1.5 times 200/s, where a bucket holds 5: a quarter of what comes in a tick",
            Pattern::Steady(1.5),
            usual,
        )
        .rule(Rule::per_second(5, 200))
        .quick(),
        Traffic::new(
            "slow",
            "one per 2 s for each of 12, asked ten times a second",
            Pattern::Steady(240.0),
            usual * 2,
        )
        .rule(Rule { capacity: 1, tokens: 1, micros: 2_000_000 })
        .keys(Keys::Even(12)),
        Traffic::new("fast", "10,000/s, asked one and a half times as fast", Pattern::Steady(1.5), usual / 2)
            .rule(Rule::per_second(1_000, 10_000)),
        Traffic::new(
            "zipf",
            "100,000 keys, 2,000 takes a second, the n-th key 1/n as often",
            Pattern::Poisson(2_000.0),
            usual,
        )
        .rule(Rule::per_second(5, 1))
        .keys(Keys::Zipf(100_000)),
        Traffic { most: 8, ..steady("multi-token", "one to eight tokens a take, twice the rate", 2.0) },
        Traffic {
            skewed: true,
            ..steady("skewed-clocks", "twice the rate, workers' clocks up to 2 s wrong", 2.0)
        }
        .quick(),
        faulty(
            "daemon-away",
            "twice the rate; whatever refills is away for the second third",
            Fault::DaemonAway,
        ),
        faulty("two-daemons", "twice the rate; whatever refills runs twice", Fault::TwoDaemons).quick(),
        faulty(
            "redis-restart",
            "twice the rate; Redis comes back empty at half the time",
            Fault::RedisRestart,
        ),
        Traffic::new(
            "tenants",
            "three keys: of 3 times the rate, of twice the rate from half the time on, of a sixteenth",
            Pattern::Tenants,
            usual.max(3_600 * MS),
        )
        .rule(Rule::per_second(160, 160))
        .keys(Keys::Even(3))
        .quick(),
        Traffic {
            most: 2,
            ..Traffic::new("certain", "takes with one right answer each", Pattern::Certain, usual)
        }
        .rule(Rule::per_second(5, 5))
        .keys(Keys::Even(16))
        .quick(),
        Traffic::new(
            "promises",
            "each key by one taker, who comes back when told to",
            Pattern::Promises,
            usual,
        )
        .rule(Rule::per_second(3, 20))
        .keys(Keys::Even(8))
        .quick(),
    ]
}

/// Bursts of so many workers on a full bucket.
fn near_full(workers: u32) -> Traffic {
    let says =
        format!("{workers} workers take one each, then burst on a bucket that is nearly full, then empty it");
    let name = format!("near-full-{workers}");
    let traffic = Traffic::new(&name, &says, Pattern::NearFull(workers), 6_000 * MS);
    Traffic { workers: Some(workers), ..traffic.rule(Rule::per_second(1_000, 1_000)) }
}

// === impl Traffic ===

impl Traffic {
    /// A traffic of one bucket under the usual rule.
    pub(crate) fn new(name: &str, says: &str, pattern: Pattern, time: Micros) -> Self {
        Self {
            name: name.to_owned(),
            says: says.to_owned(),
            rule: USUAL,
            keys: Keys::Even(1),
            pattern,
            most: 1,
            time,
            skewed: false,
            workers: None,
            fault: Fault::None,
            quick: false,
        }
    }

    fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    fn rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    fn keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }
}
