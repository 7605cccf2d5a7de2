//! Decisions a second, latencies and what they cost Redis: all limiters, everything allowed.

use crate::{
    cell::{Cell, Found},
    peer::Peer,
    report::{Spread, Table, count, short, tell},
    rules::Rule,
};

use super::{Bench, KEYS};

const HEADER: [&str; 9] = [
    "",
    "÷ raw (min–max)",
    "decisions/s",
    "p50 µs",
    "p99 µs",
    "p999 µs",
    "Redis CPU µs",
    "commands",
    "scripts",
];

/// Who, under which rule, and what the rule means where that matters.
const ROWS: [(Peer, Rule, &str); 15] = [
    (Peer::Raw, Rule::Draining, ""),
    (Peer::Topup, Rule::Draining, ", below full"),
    (Peer::Topup, Rule::Steady, ", 100/s a key"),
    (Peer::Topup, Rule::Under, ", 1,000,000/s a key"),
    (Peer::TopupLeased, Rule::Draining, ""),
    (Peer::RedisCell, Rule::Under, ""),
    (Peer::LuaLazy, Rule::Under, ""),
    (Peer::LuaLog, Rule::Under, ""),
    (Peer::Limitador, Rule::Under, ""),
    (Peer::LimitadorCached, Rule::Under, ""),
    (Peer::Trypema, Rule::Under, ""),
    (Peer::TrypemaHybrid, Rule::Under, ""),
    (Peer::Governor, Rule::Under, ""),
    (Peer::Limits, Rule::Under, ""),
    (Peer::RateLimiterFlexible, Rule::Under, ""),
];

/// One round: what each row came to.
type Round = Vec<Option<Found>>;

/// Many keys, and one for all.
pub(super) async fn all(bench: &mut Bench<'_>) -> anyhow::Result<Vec<Table>> {
    let shapes = [(KEYS, "10,000 keys"), (0, "One key for all")];
    let mut rounds: [Vec<Round>; 2] = [Vec::new(), Vec::new()];
    // Interleaved, so that an hour of a busy neighbour is everybody's.
    for round in 1..=bench.choices.rounds() {
        for ((keys, name), rounds) in shapes.iter().zip(&mut rounds) {
            tell(&format!("round {round} of {}: {name}", bench.choices.rounds()));
            rounds.push(measure(bench, *keys).await);
        }
    }
    Ok(shapes.iter().zip(&rounds).map(|((_, name), rounds)| table(name, rounds)).collect())
}

async fn measure(bench: &mut Bench<'_>, keys: usize) -> Round {
    let mut round = Vec::new();
    for (peer, rule, _) in ROWS {
        let cell = Cell::new(peer, rule, keys, bench.choices.time());
        round.push(if bench.has(peer) { bench.measure(&cell).await } else { None });
        if let Some(found) = round.last().and_then(Option::as_ref) {
            tell(&format!("  {}: {}/s", peer.name(), count(found.rate())));
        }
    }
    round
}

fn table(name: &str, rounds: &[Round]) -> Table {
    let mut table = Table::new(&format!("{name}, all allowed"), "256 tasks ask at once.", &HEADER);
    for (row, (peer, _, rule)) in ROWS.iter().enumerate() {
        let figures =
            |of: &dyn Fn(&Found) -> f64| Spread::of(rounds.iter().filter_map(|r| r[row].as_ref().map(of)));
        let median = |of: &dyn Fn(&Found) -> f64, text: fn(f64) -> String| {
            figures(of).map_or_else(String::new, |spread| text(spread.median))
        };
        let paired = rounds.iter().filter_map(|r| Some(r[row].as_ref()?.rate() / r[0].as_ref()?.rate()));
        let Some(ratio) = Spread::of(paired) else { continue };
        table.row(
            &format!("{}{rule}", peer.label()),
            [
                ratio.text(),
                median(&Found::rate, count),
                median(&|found| found.seen.p50, short),
                median(&|found| found.seen.p99, short),
                median(&|found| found.seen.p999, short),
                median(&Found::cpu, short),
                median(&Found::commands, short),
                median(&Found::scripts, short),
            ],
        );
    }
    table
}
