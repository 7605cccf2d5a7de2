//! Takes of several tokens each, as where a request costs what it asks for.

use anyhow::Context;
use topup_lab::{Summary, Table, count, output::tell, short};

use super::bench::{Bench, KEYS};
use crate::{
    limiter::kind::Limiter,
    measurement::{Found, Measurement},
    rules::Rule,
};

pub(super) const TITLE: &str = "Takes of several tokens";
const TOKENS: u64 = 10;
/// Limiters, and their rule.
const LIMITERS: [(Limiter, Rule); 5] = [
    (Limiter::Raw, Rule::Draining),
    (Limiter::Topup, Rule::Draining),
    (Limiter::TopupLeasedMore, Rule::Draining),
    (Limiter::RedisCell, Rule::Under),
    (Limiter::LuaGcra, Rule::Draining),
];
/// Keys of each, 0 for one.
const SHAPES: [(usize, &str); 2] = [(0, "one key"), (KEYS, "10,000 keys")];

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note =
        "256 tasks take 10 tokens at a time without a pause. All are allowed. *Raw* is `DECRBY key 10`.";
    let header = [
        "",
        "÷ raw (min–max)",
        "decisions/s",
        "allowed %",
        "p50 µs",
        "p99 µs",
        "Redis CPU µs",
        "own CPU µs",
        "commands",
        "scripts",
    ];
    let mut table = Table::new(TITLE, header).note(note);
    for (keys, load) in SHAPES {
        let mut found: Vec<Vec<(Found, f64)>> = vec![Vec::new(); LIMITERS.len()];
        for round in 1..=bench.choices.rounds() {
            tell(&format!("takes of several, {load}, round {round}"));
            let mut raw = None;
            for ((limiter, rule), found) in LIMITERS.into_iter().zip(&mut found) {
                if !bench.has(limiter) {
                    continue;
                }
                let one = Measurement::new(limiter, rule, keys, bench.choices.time());
                let measured = bench.measure(&Measurement { tokens: TOKENS, ..one }).await;
                if limiter == Limiter::Raw {
                    raw = measured.as_ref().map(Found::rate);
                }
                let raw = raw.context("raw cannot be measured")?;
                found.extend(measured.map(|found| (found, raw)));
            }
        }
        for ((limiter, _), found) in LIMITERS.iter().zip(&found) {
            let Some(ratio) = Summary::of(found.iter().map(|(found, raw)| found.rate() / raw)) else {
                continue;
            };
            let median = |of: &dyn Fn(&Found) -> f64, text: fn(f64) -> String| {
                let figures = Summary::of(found.iter().map(|(found, _)| of(found)));
                figures.map_or_else(String::new, |summary| text(summary.median))
            };
            table.row(
                format!("{}, {load}", limiter.label()),
                [
                    ratio.text(short),
                    median(&Found::rate, count),
                    median(
                        &|found| 100.0 * found.seen.allowed as f64 / found.seen.decisions.max(1) as f64,
                        short,
                    ),
                    median(&|found| found.seen.p50, short),
                    median(&|found| found.seen.p99, short),
                    median(&Found::cpu, short),
                    median(&Found::client_cpu, short),
                    median(&Found::commands, short),
                    median(&Found::scripts, short),
                ],
            );
        }
    }
    Ok(table)
}
