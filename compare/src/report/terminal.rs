//! A comparison on a terminal.

mod costs;
mod trace;
mod traffics;

use std::fmt::Write;

use topup_lab::{Summary, Table, count, fine};

pub use self::trace::{about_trace, of_trace};
use self::{
    costs::{costs, latencies},
    traffics::{by_traffic, other},
};
use super::summary;
use crate::comparison::Comparison;

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
