//! Each limiter in one line: the worst of all traffics, and what it costs.

use topup_lab::{Table, count, fine};

use crate::{
    comparison::{Comparison, Measurement},
    cost::Load,
    limiter::Limiter,
};

/// The table, without the traffic in which Redis comes back empty: no limiter can know the takes before.
pub(super) fn table(comparison: &Comparison) -> Table {
    let header = [
        "",
        "admitted / ideal",
        "worst excess, tokens",
        "% of capacity",
        "starved ms",
        "CPU µs, one bucket",
        "1,000 buckets",
        "denied",
        "bytes active",
        "idle",
    ];
    let mut table =
        Table::new("Summary: the worst of all traffics, and Redis per decision and bucket", header);
    for limiter in comparison.limiters() {
        table.row(limiter.name(), row(comparison, limiter));
    }
    table
}

fn row(comparison: &Comparison, limiter: Limiter) -> Vec<String> {
    let measurements: Vec<&Measurement> = comparison
        .measurements
        .iter()
        .filter(|measurement| measurement.limiter == limiter && measurement.traffic != "redis-restart")
        .collect();
    let shares =
        || measurements.iter().map(|measurement| measurement.score.share()).filter(|share| share.is_finite());
    let (least, most) = (shares().reduce(f64::min), shares().reduce(f64::max));
    let share = match least.zip(most) {
        Some((least, most)) if most - least < 0.000_5 => format!("{least:.3}"),
        Some((least, most)) => format!("{least:.3}–{most:.3}"),
        None => "–".to_owned(),
    };
    let capacity = |measurement: &Measurement| {
        let traffic = comparison.traffics.iter().find(|traffic| traffic.name == measurement.traffic);
        traffic.map_or(f64::NAN, |traffic| traffic.rule.capacity as f64)
    };
    let part = |measurement: &Measurement| measurement.score.excess.tokens / capacity(measurement);
    let worst = measurements.iter().max_by(|a, b| part(a).total_cmp(&part(b)));
    let starved = measurements.iter().map(|measurement| measurement.score.starved_ms).reduce(f64::max);
    let cost = comparison.cost(limiter);
    let cpu = |load| cost.and_then(|cost| Some(cost.under(load)?.cpu));
    let memory = cost.and_then(|cost| cost.memory);
    let or = |figure: Option<f64>, text: fn(f64) -> String| figure.map_or_else(|| "–".to_owned(), text);
    vec![
        share,
        or(worst.map(|measurement| measurement.score.excess.tokens), fine),
        or(worst.map(|measurement| 100.0 * part(measurement)), count),
        or(starved, fine),
        or(cpu(Load::Allowed), fine),
        or(cpu(Load::Keys), fine),
        or(cpu(Load::Denied), fine),
        or(memory.map(|memory| memory.active), count),
        or(memory.map(|memory| memory.idle), count),
    ]
}
