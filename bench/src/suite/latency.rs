//! The time of one decision if Redis has little else to do.

use topup_lab::{Summary, Table, output::tell, short};

use crate::{limiter::kind::Limiter, measurement::Measurement, rules::Rule};

use super::bench::Bench;

/// Few enough for each to be asked often: most takes of a key are not its first in this process.
const KEYS: usize = 100;

pub(super) const TITLE: &str = "Latency with few in flight";
const ROWS: [(Limiter, Rule, &str); 7] = [
    (Limiter::Raw, Rule::Draining, ""),
    (Limiter::Topup, Rule::Draining, ", below full"),
    (Limiter::Topup, Rule::Under, ", back to full"),
    (Limiter::TopupLeased, Rule::Draining, ""),
    (Limiter::RedisCell, Rule::Under, ""),
    (Limiter::LuaGcra, Rule::Steady, ""),
    (Limiter::LuaLazy, Rule::Under, ""),
];

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "100 keys, all allowed. Figures are in µs, with the smallest and the largest of all rounds in \
                brackets.";
    let header = ["", "p50, 1 task", "p99, 1 task", "p50, 8 tasks", "p99, 8 tasks"];
    let mut table = Table::new(TITLE, header).note(note);
    let mut figures = vec![[const { Vec::new() }; 4]; ROWS.len()];
    for round in 1..=bench.choices.rounds() {
        tell(&format!("latency, round {round}"));
        for ((limiter, rule, _), figures) in ROWS.iter().zip(&mut figures) {
            for (place, tasks) in [(0, 1), (2, 8)] {
                let measurement = Measurement {
                    tasks,
                    ..Measurement::new(*limiter, *rule, KEYS, bench.choices.time() / 2)
                };
                let found = if bench.has(*limiter) { bench.measure(&measurement).await } else { None };
                if let Some(found) = found {
                    figures[place].push(found.seen.p50);
                    figures[place + 1].push(found.seen.p99);
                }
            }
        }
    }
    for ((limiter, _, rule), figures) in ROWS.iter().zip(figures) {
        let [p50, p99, p50_of_8, p99_of_8] = figures.map(Summary::of);
        let (Some(p50), Some(p99), Some(p50_of_8), Some(p99_of_8)) = (p50, p99, p50_of_8, p99_of_8) else {
            continue;
        };
        let cells = [p50.text(short), short(p99.median), p50_of_8.text(short), short(p99_of_8.median)];
        table.row(format!("{}{rule}", limiter.label()), cells);
    }
    Ok(table)
}
