//! A comparison on a terminal.

use std::fmt::Write;

use topup_lab::{Quantiles, Summary, Table, count, fine};

use super::summary;
use crate::{
    comparison::{Comparison, Measurement},
    cost::Load,
    replay::results::Replay,
    traffic::Traffic,
};

/// Traffics side by side in a table.
const ABREAST: usize = 7;

/// All of it, as text.
pub fn print(comparison: &Comparison) -> String {
    let about = &comparison.about;
    let mut text = format!(
        "topup-compare {}, Redis {}, {}, {} CPUs, {} workers, seed {}, rounds {}\n{}\n\n",
        about.topup,
        about.redis,
        about.date,
        about.cpus,
        about.workers,
        about.seed,
        about.rounds,
        about.command
    );
    if let Some(replay) = &comparison.replay {
        let _ = writeln!(text, "{}\n", about_trace(replay));
        of_trace(replay).iter().for_each(|table| text.push_str(&format!("{table}\n")));
    }
    for table in tables(comparison) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{table}");
    }
    if let Some(crossover) = &comparison.crossover {
        let at = |at: Option<f64>| {
            at.map_or("at none of the rates measured".to_owned(), |at| {
                format!("from {} takes per bucket and second on", fine(at))
            })
        };
        let _ = writeln!(
            text,
            "Topping up is cheaper for Redis than topup's lazy refill {}, than the usual one {}.\n",
            at(crossover.at),
            at(crossover.at_usual)
        );
    }
    text.push_str("## Verdicts\n\n");
    for (limiter, says) in &comparison.verdicts {
        let _ = writeln!(text, "{}\n  {}\n", limiter.name(), says.join("\n  "));
    }
    for line in &comparison.left_out {
        let _ = writeln!(text, "left out: {line}");
    }
    text
}

/// The tables: one figure of each limiter under each traffic, and costs.
fn tables(comparison: &Comparison) -> Vec<Table> {
    let mut tables = vec![summary::table(comparison)];
    if !comparison.measurements.is_empty() {
        let text = |summary: Option<Summary>, few: &dyn Fn(f64) -> String| {
            summary.map_or_else(String::new, |summary| summary.text(few))
        };
        let three = |figure: f64| if figure.is_finite() { format!("{figure:.3}") } else { "–".to_owned() };
        tables.extend(by_traffic(comparison, "Admitted / ideal", &|measurement| {
            text(measurement.share, &three)
        }));
        tables.extend(by_traffic(
            comparison,
            "Worst excess over capacity + rate × window, in tokens",
            &|measurement| text(measurement.excess, &fine),
        ));
        tables.extend(by_traffic(
            comparison,
            "Tokens wrongly allowed / takes wrongly denied",
            &|measurement| {
                format!(
                    "{} / {}",
                    count(measurement.score.wrongly_allowed as f64),
                    count(measurement.score.wrongly_denied as f64)
                )
            },
        ));
        tables.extend(by_traffic(comparison, "Worst starvation, in ms", &|measurement| {
            fine(measurement.score.starved_ms)
        }));
        tables.extend(other(comparison));
    }
    if !comparison.costs.is_empty() {
        tables.push(costs(comparison));
        tables.push(latencies(comparison));
    }
    if !comparison.upkeep.is_empty() {
        let mut table =
            Table::new("The daemon, while nobody asks", ["active buckets", "Redis µs/s", "daemon CPU µs/s"]);
        for upkeep in &comparison.upkeep {
            table.row(count(f64::from(upkeep.buckets)), [count(upkeep.redis), count(upkeep.daemon)]);
        }
        tables.push(table);
    }
    if let Some(crossover) = &comparison.crossover {
        let names = crossover.curves.iter().map(|curve| curve.limiter.name());
        let header = std::iter::once("takes per bucket and second".to_owned()).chain(names);
        let title = format!("Redis CPU µs per bucket and second, of {} buckets", crossover.keys);
        let mut table = Table::new(&title, header);
        let points = crossover.curves.first().map_or(0, |curve| curve.points.len());
        for point in 0..points {
            let rate = crossover.curves[0].points[point].0;
            table.row(fine(rate), crossover.curves.iter().map(|curve| fine(curve.points[point].2)));
        }
        tables.push(table);
    }
    tables
}

/// One figure of each limiter under each traffic, as many traffics abreast as a terminal holds.
fn by_traffic(comparison: &Comparison, title: &str, figure: &dyn Fn(&Measurement) -> String) -> Vec<Table> {
    let abreast = |traffics: &[Traffic]| {
        let names = traffics.iter().map(|traffic| traffic.name.clone());
        let mut table = Table::new(title, std::iter::once(String::new()).chain(names));
        for limiter in comparison.limiters() {
            let measurement = |traffic: &Traffic| {
                comparison.measurement(limiter, &traffic.name).map_or_else(|| "–".to_owned(), figure)
            };
            table.row(limiter.name(), traffics.iter().map(measurement));
        }
        table
    };
    comparison.traffics.chunks(ABREAST).map(abreast).collect()
}

/// Figures of one traffic only.
fn other(comparison: &Comparison) -> Option<Table> {
    let header = [
        "",
        "otherwise than certain",
        "retry late p50 µs",
        "retry late p99 µs",
        "promised after due p50 µs",
        "unevenness, steady-5",
    ];
    let told = |traffic: &Traffic| matches!(traffic.name.as_str(), "certain" | "promises" | "steady-5");
    if !comparison.traffics.iter().any(told) {
        return None;
    }
    let mut table = Table::new("One by one", header);
    for limiter in comparison.limiters() {
        let certain =
            comparison.measurement(limiter, "certain").and_then(|measurement| measurement.otherwise);
        let promises = comparison
            .measurement(limiter, "promises")
            .and_then(|measurement| measurement.score.promises.clone());
        let late = promises.as_ref().and_then(|promises| promises.late);
        let cautious = promises.as_ref().and_then(|promises| promises.cautious);
        let uneven =
            comparison.measurement(limiter, "steady-5").and_then(|measurement| measurement.score.unevenness);
        let or = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), fine);
        table.row(
            limiter.name(),
            [
                or(certain.map(|count| count as f64)),
                or(late.map(|late| late.p50)),
                or(late.map(|late| late.p99)),
                or(cautious.map(|cautious| cautious.p50)),
                or(uneven),
            ],
        );
    }
    Some(table)
}

fn costs(comparison: &Comparison) -> Table {
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

fn latencies(comparison: &Comparison) -> Table {
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

/// The description of a trace and its replay.
pub fn about_trace(replay: &Replay) -> String {
    let Replay { file, rule, seconds, keys, speed, .. } = replay;
    let (capacity, rate) = (rule.capacity, rule.rate_text());
    let asked = replay.outcomes.first().map_or(0, |outcome| outcome.asked);
    format!(
        "{file}: {} takes of {} keys in {} s, under capacity {capacity} and rate {rate}; replayed {speed} times as fast",
        count(asked as f64),
        count(*keys as f64),
        fine(*seconds)
    )
}

/// The decisions of a perfect limiter about a trace, and the costs of each limiter.
pub fn of_trace(replay: &Replay) -> [Table; 2] {
    let header = ["a perfect", "allows", "denies", "%", "keys denied", "denied most"];
    let mut table = Table::new("What it would have done", header);
    for outcome in &replay.outcomes {
        let most = outcome.most_denied.iter().map(|(key, denied, asked)| format!("{key} {denied}/{asked}"));
        let share = 100.0 * outcome.denied as f64 / outcome.asked.max(1) as f64;
        table.row(
            outcome.ideal.says(),
            [
                count((outcome.asked - outcome.denied) as f64),
                count(outcome.denied as f64),
                fine(share),
                count(outcome.keys_denied as f64),
                most.collect::<Vec<_>>().join(", "),
            ],
        );
    }
    let mut costs = Table::new("Redis, per decision", ["", "CPU µs", "commands µs"]);
    for paid in &replay.costs {
        costs.row(paid.limiter.name(), [fine(paid.cpu), fine(paid.command)]);
    }
    [table, costs]
}
