//! A full Redis: the largest load that is borne, decisions under a larger one, and errors after it.

mod search;

use std::time::Duration;

use tokio::time::sleep;
use topup_lab::{Summary, Table, count, output::tell, short};

use self::search::{FIRST, Search};
use super::bench::Bench;
use crate::{
    limiter::kind::Limiter,
    measurement::Answered,
    open_loop::{LoadGenerators, OpenLoad},
    rules::Rule,
    schedule::Phase,
};

pub(super) const TITLE: &str = "A full Redis";
const LIMITERS: [Limiter; 5] =
    [Limiter::Raw, Limiter::Topup, Limiter::RedisCell, Limiter::LuaGcra, Limiter::LuaLazy];
const KEYS: usize = 20_000;
const PROCESSES: u32 = 4;
/// More rounds than this take longer than anybody waits.
const MOST_ROUNDS: u32 = 3;
/// A step fails when a larger part of its takes ends with an error.
const ERRORS: f64 = 0.001;
/// A step fails too when 1 of 100 answers takes longer, in µs: takes pile up, and errors are a matter of time.
const SLOW: f64 = 100_000.0;
/// Load generators that are later than this with 1 of 100 takes have had too little CPU. In µs.
const LAG: f64 = 20_000.0;
/// Load of an overload ÷ the largest that is borne.
const OVERLOAD: f64 = 1.5;
/// Answers of a step that failed have come, or never will.
const REST: Duration = Duration::from_millis(500);
/// From the end of an overload to the time in which errors are counted.
const RECOVERY: f64 = 2.0;

/// A step of the load, and what it came to.
#[derive(Clone, Copy, Debug)]
struct Step {
    seen: Answered,
    /// Part of one CPU that Redis used.
    busy: f64,
}

/// One limiter in one round.
#[derive(Clone, Copy, Debug)]
struct Borne {
    /// The most that was borne.
    best: Step,
    /// Whether the load generators were at their end before Redis was.
    generators: bool,
    overload: Answered,
    after: Answered,
}

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "An open loop of four processes takes one token at a time, at random instants, of 20,000 keys. Each \
                key may take 10 at once and 10/s, and asks for less. The load is raised in steps. *Borne* is the \
                largest load with less than 0.1 % errors and with 99 of 100 answers within 100 ms. *Errors* are \
                takes without an answer within 250 ms. *Redis* is the part of one CPU that Redis used then. \
                *Overload* offers 1.5 × as much. *After* is half of that, from 2 s after its beginning. *Lag* is the \
                delay with which generators with too little CPU sent 99 of 100 takes at most. Where a figure begins \
                with >, the generators were at their end before Redis was.";
    let header = [
        "",
        "borne, decisions/s",
        "÷ raw",
        "Redis",
        "p99 µs",
        "in overload, decisions/s",
        "÷ borne",
        "errors %",
        "after, errors %",
        "after, p99 µs",
        "lag ms",
    ];
    let mut table = Table::new(TITLE, header).note(note);
    let mut borne: Vec<Vec<Borne>> = vec![Vec::new(); LIMITERS.len()];
    for round in 1..=bench.choices.rounds().min(MOST_ROUNDS) {
        for (limiter, borne) in LIMITERS.into_iter().zip(&mut borne) {
            if !bench.has(limiter) {
                continue;
            }
            match measured(bench, limiter, round.into()).await {
                Ok(found) => {
                    let rate = count(found.best.seen.rate());
                    tell(&format!("full, round {round}: {} bears {rate}/s", limiter.name()));
                    borne.push(found);
                }
                Err(error) => tell(&format!("{}: {error:#}", limiter.name())),
            }
        }
    }
    let raw = Summary::of(borne[0].iter().map(|borne| borne.best.seen.rate()));
    for (limiter, borne) in LIMITERS.into_iter().zip(&borne).filter(|(_, borne)| !borne.is_empty()) {
        let median = |of: fn(&Borne) -> f64| {
            Summary::of(borne.iter().map(of)).map_or(f64::NAN, |summary| summary.median)
        };
        let rate = median(|borne| borne.best.seen.rate());
        let over = if borne.iter().any(|borne| borne.generators) { "> " } else { "" };
        table.row(
            limiter.label(),
            [
                format!("{over}{}", count(rate)),
                short(rate / raw.map_or(f64::NAN, |summary| summary.median)),
                short(median(|borne| borne.best.busy)),
                short(median(|borne| borne.best.seen.p99)),
                count(median(|borne| borne.overload.rate())),
                short(median(|borne| borne.overload.rate() / borne.best.seen.rate())),
                short(median(|borne| 100.0 * borne.overload.errors())),
                short(median(|borne| 100.0 * borne.after.errors())),
                short(median(|borne| borne.after.p99)),
                short(median(|borne| borne.overload.lag.max(borne.after.lag) / 1e3)),
            ],
        );
    }
    Ok(table)
}

async fn measured(bench: &mut Bench<'_>, limiter: Limiter, seed: u64) -> anyhow::Result<Borne> {
    let seconds = if bench.choices.quick { 1.0 } else { 2.0 };
    let load = OpenLoad { limiter, rule: Rule::Few, keys: KEYS, processes: PROCESSES, seed };
    let mut generators = LoadGenerators::start(&mut bench.fixture, &bench.choices.found, &load).await?;
    // Every key is known and below full.
    generators.run(&[Phase { rate: FIRST, seconds: 2.0 * seconds }]).await?;

    let mut search = Search::new();
    let mut best: Option<Step> = None;
    while let Some(rate) = search.next() {
        let step = step(bench, &mut generators, Phase { rate, seconds }).await?;
        let bears = step.seen.errors() < ERRORS && step.seen.p99 < SLOW;
        tell(&format!(
            "  {}: {}/s, {} % errors, p99 {} µs, lag {} µs, Redis {}",
            limiter.name(),
            count(rate),
            short(100.0 * step.seen.errors()),
            short(step.seen.p99),
            short(step.seen.lag),
            short(step.busy)
        ));
        search.note(bears, step.seen.lag > LAG);
        if bears {
            best = Some(step);
        } else {
            sleep(REST).await;
        }
    }
    let best = best.ok_or_else(|| anyhow::anyhow!("it does not bear {} takes a second", count(FIRST)))?;
    let rate = OVERLOAD * best.seen.rate();
    let half = rate / 2.0;
    let phases = [(rate, 3.0 * seconds), (half, RECOVERY), (half, 2.0 * seconds)];
    let seen = generators.run(&phases.map(|(rate, seconds)| Phase { rate, seconds })).await?;
    generators.end().await;
    Ok(Borne { best, generators: search.generators, overload: seen[0], after: seen[2] })
}

async fn step(bench: &mut Bench<'_>, generators: &mut LoadGenerators, phase: Phase) -> anyhow::Result<Step> {
    let before = bench.fixture.counters().await?;
    let seen = generators.run(&[phase]).await?;
    let redis = bench.fixture.counters().await?.since(&before);
    Ok(Step { seen: seen[0], busy: redis.cpu / 1e6 / phase.seconds })
}
