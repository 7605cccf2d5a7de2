//! Decisions a second, latencies and what they cost Redis: all limiters, everything allowed.

use anyhow::Context;
use topup_lab::{Table, count, output::tell, short};

use crate::{
    limiter::kind::Limiter,
    measurement::{Found, Measurement},
    rules::Rule,
};

use super::{
    bench::{Bench, KEYS},
    medians::{BesideRaw, Medians, ratio_to_raw},
};

pub(super) const TITLES: [&str; 2] = ["10,000 keys, all allowed", "One key for all, all allowed"];
/// Keys of each, 0 for one.
const SHAPES: [usize; 2] = [KEYS, 0];
const HEADER: [&str; 10] = [
    "",
    "÷ raw (min–max)",
    "decisions/s",
    "p50 µs",
    "p99 µs",
    "p999 µs",
    "Redis CPU µs",
    "own CPU µs",
    "commands",
    "scripts",
];

/// Limiters, their rules, and the meaning of the rule where it matters.
const ROWS: [(Limiter, Rule, &str); 16] = [
    (Limiter::Raw, Rule::Draining, ""),
    (Limiter::Topup, Rule::Draining, ", below full"),
    (Limiter::Topup, Rule::Brisk, ", 100/s a key"),
    (Limiter::Topup, Rule::Under, ", back to full"),
    (Limiter::TopupLeased, Rule::Draining, ""),
    (Limiter::RedisCell, Rule::Under, ""),
    (Limiter::LuaGcra, Rule::Steady, ""),
    (Limiter::LuaLazy, Rule::Under, ""),
    (Limiter::LuaLog, Rule::Under, ""),
    (Limiter::Limitador, Rule::Under, ""),
    (Limiter::LimitadorCached, Rule::Under, ""),
    (Limiter::Trypema, Rule::Under, ""),
    (Limiter::TrypemaHybrid, Rule::Under, ""),
    (Limiter::Governor, Rule::Under, ""),
    (Limiter::Limits, Rule::Under, ""),
    (Limiter::RateLimiterFlexible, Rule::Under, ""),
];

/// Rows between two measurements of raw: the nearer in time, the fairer the pair, should the machine be busy elsewhere.
const RAW_EVERY: usize = 3;

/// One round: what each row came to, and the decisions a second of the raw measured just before.
type Round = Vec<Option<BesideRaw>>;

/// Many keys, and one for all.
pub(super) async fn all(bench: &mut Bench<'_>) -> anyhow::Result<Vec<Table>> {
    let mut rounds: [Vec<Round>; 2] = [Vec::new(), Vec::new()];
    // Interleaved, so that an hour of a busy neighbour is everybody's.
    for round in 1..=bench.choices.rounds() {
        for ((keys, title), rounds) in SHAPES.into_iter().zip(TITLES).zip(&mut rounds) {
            tell(&format!("round {round} of {}: {title}", bench.choices.rounds()));
            rounds.push(measure(bench, keys).await?);
        }
    }
    Ok(TITLES.into_iter().zip(&rounds).map(|(title, rounds)| table(title, rounds)).collect())
}

async fn measure(bench: &mut Bench<'_>, keys: usize) -> anyhow::Result<Round> {
    let (mut round, mut raw, mut since) = (Vec::new(), None::<Found>, 0);
    for (limiter, rule, _) in ROWS {
        if !bench.has(limiter) {
            round.push(None);
            continue;
        }
        if since % RAW_EVERY == 0 {
            let measurement = Measurement::new(Limiter::Raw, Rule::Draining, keys, bench.choices.time());
            raw = Some(bench.measure(&measurement).await.context("raw cannot be measured")?);
        }
        since += 1;
        let found = match limiter {
            Limiter::Raw => raw.clone(),
            _ => bench.measure(&Measurement::new(limiter, rule, keys, bench.choices.time())).await,
        };
        if let Some(found) = &found {
            tell(&format!("  {}: {}/s", limiter.name(), count(found.rate())));
        }
        round.push(found.zip(raw.as_ref().map(Found::rate)));
    }
    Ok(round)
}

fn table(title: &str, rounds: &[Round]) -> Table {
    let mut table =
        Table::new(title, HEADER).note("256 tasks ask at once. *Own CPU* is that of the process that asks.");
    for (row, (limiter, _, rule)) in ROWS.iter().enumerate() {
        let found = || rounds.iter().filter_map(|round| round[row].as_ref());
        let Some(ratio) = ratio_to_raw(found()) else { continue };
        let medians = Medians::of(found().map(|(found, _)| found));
        // A limiter that denies here is faster than it should be, or limits what it was not told to.
        let allowed = medians.allowed().unwrap_or(1.0);
        let but =
            if allowed < 0.999 { format!(", {} % allowed", short(allowed * 100.0)) } else { String::new() };
        table.row(
            format!("{}{rule}{but}", limiter.label()),
            [
                ratio.text(short),
                medians.text(Found::rate, count),
                medians.text(|found| found.seen.p50, short),
                medians.text(|found| found.seen.p99, short),
                medians.text(|found| found.seen.p999, short),
            ]
            .into_iter()
            .chain(medians.costs()),
        );
    }
    table
}
