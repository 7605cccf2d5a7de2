//! Accuracy: four processes ask one bucket for all they can get.

use std::time::Duration;

use topup_lab::{Summary, Table, count, output::tell, short};

use crate::{
    limiter::kind::Limiter,
    measurement::{Found, Measurement},
    rules::Rule,
};

use super::bench::Bench;

pub(super) const TITLE: &str = "Accuracy";
const LIMITERS: [Limiter; 8] = [
    Limiter::Topup,
    Limiter::TopupLeased,
    Limiter::RedisCell,
    Limiter::LuaLazy,
    Limiter::Limitador,
    Limiter::LimitadorCached,
    Limiter::Trypema,
    Limiter::TrypemaHybrid,
];
const SECONDS: u64 = 5;
const PROCESSES: usize = 4;

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "Four processes of 64 tasks overload one limit of 1,000 at once and 1,000/s for 5 s. A perfect limiter \
                allows capacity + rate × time at most, and rate × time at least, where the warm-up emptied the \
                bucket. Fixed and sliding windows have no burst beside the rate.";
    let mut table =
        Table::new(TITLE, ["", "allowed", "÷ (capacity + rate × time)", "÷ (rate × time)", "decisions/s"])
            .note(note);
    let time = if bench.choices.quick { Duration::from_secs(1) } else { Duration::from_secs(SECONDS) };
    for limiter in LIMITERS.into_iter().filter(|limiter| bench.has(*limiter)).collect::<Vec<_>>() {
        tell(&format!("accuracy: {}", limiter.name()));
        let measurement = Measurement {
            tasks: 64,
            processes: PROCESSES,
            ..Measurement::new(limiter, Rule::Tight, 0, time)
        };
        let mut found: Vec<Found> = Vec::new();
        for _ in 0..bench.choices.rounds().min(3) {
            found.extend(bench.measure(&measurement).await);
        }
        let rate = Rule::Tight.per_second() as f64;
        let part = |extra: f64| {
            let parts = found.iter().map(move |f| f.seen.allowed as f64 / (rate * f.seen.seconds + extra));
            Summary::of(parts).map_or_else(String::new, |summary| summary.text(short))
        };
        let median = |of: &dyn Fn(&Found) -> f64| {
            Summary::of(found.iter().map(of)).map_or_else(String::new, |summary| count(summary.median))
        };
        let allowed = median(&|found| found.seen.allowed as f64);
        let rates = median(&Found::rate);
        table.row(limiter.label(), [allowed, part(Rule::Tight.capacity() as f64), part(0.0), rates]);
    }
    Ok(table)
}
