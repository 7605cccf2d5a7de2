//! How costs grow: with keys, tasks, processes, active buckets and limits.

use std::{fmt::Write, time::Duration};

use tokio::time::sleep;

use crate::{
    cell::Cell,
    clock::Stopwatch,
    peer::Peer,
    report::{Table, count, short, tell},
    rules::{self, Rule},
};

use super::{Bench, KEYS, refill};

/// Whose curves are drawn.
const CURVES: [(Peer, Rule, &str); 4] = [
    (Peer::Raw, Rule::Deep, "raw"),
    (Peer::Topup, Rule::Deep, "topup, below full"),
    (Peer::Topup, Rule::Under, "topup, back to full"),
    (Peer::LuaLazy, Rule::Under, "token bucket, Lua"),
];

pub(super) async fn all(bench: &mut Bench<'_>) -> anyhow::Result<Vec<Table>> {
    let keys = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
    let tasks = [1, 4, 16, 64, 256, 1_024, 4_096];
    let time = bench.choices.time();
    let cell = move |peer, rule| Cell::new(peer, rule, KEYS, time);
    Ok(vec![
        curve(bench, "keys", &keys, |peer, rule, keys| Cell { keys, ..cell(peer, rule) }).await,
        curve(bench, "tasks", &tasks, |peer, rule, tasks| Cell { tasks, ..cell(peer, rule) }).await,
        curve(bench, "processes", &[1, 2, 4, 8], |peer, rule, processes| Cell {
            processes,
            ..cell(peer, rule)
        })
        .await,
        buckets(bench).await?,
        limits(bench).await?,
    ])
}

/// Decisions a second, and p99, for each of `sizes`.
async fn curve(
    bench: &mut Bench<'_>,
    what: &str,
    sizes: &[usize],
    cell: impl Fn(Peer, Rule, usize) -> Cell,
) -> Table {
    let header: Vec<&str> = std::iter::once(what).chain(CURVES.map(|(_, _, name)| name)).collect();
    let note = "Decisions a second, all allowed; p99 in µs. All processes share the CPUs that Redis leaves.";
    let mut table = Table::new(&format!("By {what}"), note, &header);
    for &size in sizes {
        tell(&format!("growth: {size} {what}"));
        let mut figures = Vec::new();
        for (peer, rule, _) in CURVES {
            let found = bench.measure(&cell(peer, rule, size)).await;
            let text = |found: crate::cell::Found| {
                format!("{}/s, p99 {}", count(found.rate()), short(found.seen.p99))
            };
            figures.push(found.map_or_else(String::new, text));
        }
        table.row(&count(size as f64), figures);
    }
    table
}

async fn buckets(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "Buckets that cannot be full for a while, at a tick of 100 ms, while nobody asks: each is credited every \
                1,024 ticks.";
    let header = [
        "buckets",
        "Redis µs per credit",
        "credited a second",
        "part of one CPU",
        "lag ms",
        "bytes per bucket",
    ];
    let mut table = Table::new("By active buckets", note, &header);
    for size in [100, 1_000, 10_000, 100_000, 1_000_000] {
        tell(&format!("growth: {size} active buckets"));
        bench.stage.clear().await?;
        sleep(Duration::from_millis(500)).await;
        let empty = bench.stage.meter().await?.memory;
        refill::fill(&mut bench.stage, Rule::Crowd, size).await?;
        let cost = refill::cost(&mut bench.stage, Rule::Crowd).await?;
        let bytes = (bench.stage.meter().await?.memory - empty) / size as f64;
        let figures =
            [short(cost.each), count(cost.credited), short(cost.share), short(cost.lag_ms), count(bytes)];
        table.row(&count(size as f64), figures);
    }
    Ok(table)
}

async fn limits(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "Limits in one config: how long from the daemon's start until the last is published, and what Redis does \
                then while nobody asks.";
    let header = ["limits", "until published, ms", "idle part of one CPU", "idle commands a second"];
    let mut table = Table::new("By limits", note, &header);
    for size in [1, 10, 100, 1_000, 10_000] {
        tell(&format!("growth: {size} limits"));
        bench.stage.stop_daemon().await;
        bench.stage.clear().await?;
        let mut config = format!("[redis]\nurl = \"{}\"\n", bench.stage.url());
        for limit in 0..size {
            // Writing to a string cannot fail.
            let _ = write!(config, "\n[limit.l{limit:05}]\ncapacity = 100\nrate = \"10/s\"\n");
        }
        let watch = Stopwatch::start();
        bench.stage.start_daemon(&config).await?;
        bench.stage.published(&format!("l{:05}", size - 1), None).await?;
        let published = watch.elapsed();
        sleep(Duration::from_secs(1)).await;
        let before = bench.stage.meter().await?;
        sleep(Duration::from_secs(2)).await;
        let idle = bench.stage.meter().await?.since(before);
        let figures = [published.as_secs_f64() * 1e3, idle.cpu / 2e6, idle.commands / 2.0].map(short);
        table.row(&count(f64::from(size)), figures);
    }
    let config = rules::config(bench.stage.url());
    bench.stage.start_daemon(&config).await?;
    Ok(table)
}
