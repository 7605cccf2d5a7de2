//! Tables of costs and latencies.

use topup_lab::{Quantiles, Table, count, fine};

use crate::{comparison::Comparison, cost::Load};

pub(super) fn costs(comparison: &Comparison) -> Table {
    let header = [
        "",
        "CPU µs, one bucket",
        "commands µs",
        "commands",
        "CPU µs, 1,000 buckets",
        "commands µs",
        "CPU µs, denied",
        "bytes active",
        "bytes idle",
    ];
    let mut table = Table::new("Redis, per decision at full load, refill included; and per bucket", header);
    for cost in &comparison.costs {
        let cpu = |load| {
            let summary = cost.under(load).map(|under| under.rounds);
            summary.map_or_else(|| "–".to_owned(), |rounds| rounds.text(fine))
        };
        let part = |load, figure: fn(&crate::cost::Saturation) -> f64| {
            cost.under(load).map_or_else(|| "–".to_owned(), |under| fine(figure(under)))
        };
        let memory = |figure: fn(&crate::cost::Memory) -> f64| {
            cost.memory.as_ref().map_or_else(|| "–".to_owned(), |memory| count(figure(memory)))
        };
        table.row(
            cost.limiter.name(),
            [
                cpu(Load::Allowed),
                part(Load::Allowed, |under| under.command),
                part(Load::Allowed, |under| under.commands),
                cpu(Load::Keys),
                part(Load::Keys, |under| under.command),
                cpu(Load::Denied),
                memory(|memory| memory.active),
                memory(|memory| memory.idle),
            ],
        );
    }
    table
}

pub(super) fn latencies(comparison: &Comparison) -> Table {
    let header = ["", "decisions/s", "p50 µs", "p99 µs", "p99.9 µs", "denied/s", "p50 µs", "p99 µs"];
    let mut table = Table::new("Speed, four workers of 64 tasks on one bucket", header);
    for cost in &comparison.costs {
        let rate = |load| cost.under(load).map_or_else(|| "–".to_owned(), |under| count(under.rate));
        let latency = |load, figure: fn(&Quantiles) -> f64| {
            let latency = cost.under(load).and_then(|under| under.latency);
            latency.map_or_else(|| "–".to_owned(), |latency| count(figure(&latency)))
        };
        table.row(
            cost.limiter.name(),
            [
                rate(Load::Allowed),
                latency(Load::Allowed, |latency| latency.p50),
                latency(Load::Allowed, |latency| latency.p99),
                latency(Load::Allowed, |latency| latency.p999),
                rate(Load::Denied),
                latency(Load::Denied, |latency| latency.p50),
                latency(Load::Denied, |latency| latency.p99),
            ],
        );
    }
    table
}
