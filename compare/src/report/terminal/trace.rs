//! A trace and its replay, in words and tables.

use topup_lab::{Table, count, fine};

use crate::replay::results::Replay;

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
