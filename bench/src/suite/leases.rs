//! Tokens taken in advance, as the documented config does, beside a limit without a lease.

use anyhow::Context;
use topup_lab::{Table, output::tell};

use super::{
    against_raw::{HEADER, add_row},
    bench::{Bench, KEYS},
    medians::BesideRaw,
};
use crate::{limiter::kind::Limiter, measurement::Measurement, rules::Rule};

pub(super) const TITLE: &str = "Leases";
const LIMITERS: [Limiter; 3] = [Limiter::Topup, Limiter::TopupLeased, Limiter::TopupLeasedMore];
/// Rule, keys, and what that means.
const LOADS: [(Rule, usize, &str); 5] = [
    (Rule::Draining, 0, "one key, below full"),
    (Rule::Under, 0, "one key, back to full"),
    (Rule::Tight, 0, "one key, overload"),
    (Rule::Draining, KEYS, "10,000 keys, below full"),
    (Rule::Under, KEYS, "10,000 keys, back to full"),
];

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "256 tasks ask without a pause, as in the tables of all limiters. `lease` has a `max` of 100 tokens, as \
                `config.toml` shows it, or of 1,000, and a `ttl` of 1 s. *Overload* is 1,000 at once and 1,000/s.";
    let mut table = Table::new(TITLE, HEADER).note(note);
    let mut found: Vec<Vec<BesideRaw>> = vec![Vec::new(); LOADS.len() * LIMITERS.len()];
    for round in 1..=bench.choices.rounds() {
        for ((rule, keys, load), found) in LOADS.iter().zip(found.chunks_mut(LIMITERS.len())) {
            tell(&format!("leases, round {round}: {load}"));
            let shape = |limiter| Measurement::new(limiter, *rule, *keys, bench.choices.time());
            let raw = shape(Limiter::Raw);
            let measurements = LIMITERS.map(shape);
            let raw = bench.measure(&raw).await.context("raw cannot be measured")?.rate();
            for (measurement, found) in measurements.iter().zip(found) {
                if bench.has(measurement.limiter) {
                    found.extend(bench.measure(measurement).await.map(|found| (found, raw)));
                }
            }
        }
    }
    let rows = LOADS.iter().flat_map(|(.., load)| LIMITERS.map(|limiter| (limiter, load)));
    for ((limiter, load), found) in rows.zip(&found) {
        add_row(&mut table, format!("{}, {load}", limiter.label()), found);
    }
    Ok(table)
}
