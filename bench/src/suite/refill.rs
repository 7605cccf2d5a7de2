//! What refilling costs: 100,000 buckets below full, topped up at every tick.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;
use topup::Client;
use topup_measure::{Meter, Table, short};

use crate::{
    cell::Cell,
    clock::Stopwatch,
    peer::Peer,
    report::tell,
    rules::{CROWD_TAKE, Rule},
    stage::Stage,
    team,
};

use super::{Bench, KEYS};

const BUCKETS: usize = 100_000;
/// Many ticks.
const AT_LEAST: Duration = Duration::from_secs(4);
/// A pass over a million buckets takes some ten seconds.
const AT_MOST: Duration = Duration::from_secs(40);
/// While no worker asks, the whole of a refill.
const REFILLING: [&str; 3] = ["eval", "evalsha", "zrangebyscore"];
/// Between two looks at the daemon's account.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the daemon's work on so many buckets comes to, while nobody asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// µs of Redis for each bucket credited.
    pub(super) each: f64,
    /// Credited in a second.
    pub(super) credited: f64,
    /// Part of one CPU that Redis uses.
    pub(super) share: f64,
    pub(super) lag_ms: f64,
}

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "100,000 buckets of 1,000/s, all below full, topped up at the default tick of 100 ms. Latencies are those \
                of raw, a bare `DECR`, in µs.";
    let mut table = Table::new("Refill", ["", "figure"]).note(note);
    tell("refill: 100,000 buckets");
    fill(&mut bench.stage, BUCKETS).await?;
    let cost = cost(&mut bench.stage).await?;
    let raw = Cell { tasks: 8, ..Cell::new(Peer::Raw, Rule::Draining, KEYS, bench.choices.time() * 2) };
    let busy = team::measure_as_it_is(&mut bench.stage, &bench.choices.found, &raw).await?;
    bench.stage.stop_daemon().await;
    let idle = team::measure_as_it_is(&mut bench.stage, &bench.choices.found, &raw).await?;
    let config = crate::rules::config(bench.stage.url());
    bench.stage.start_daemon(&config).await?;

    table.row("Redis µs per bucket credited", [short(cost.each)]);
    table.row("buckets credited a second", [short(cost.credited)]);
    table.row("part of one CPU that Redis uses for it", [short(cost.share)]);
    table.row("lag of the last refill, ms", [short(cost.lag_ms)]);
    for (name, found) in [("with refills", busy), ("without a daemon", idle)] {
        table.row(format!("p50, 8 tasks, {name}"), [short(found.seen.p50)]);
        table.row(format!("p99, 8 tasks, {name}"), [short(found.seen.p99)]);
        table.row(format!("p999, 8 tasks, {name}"), [short(found.seen.p999)]);
    }
    Ok(table)
}

/// Brings `buckets` buckets below full, on an empty Redis.
pub(super) async fn fill(stage: &mut Stage, buckets: usize) -> anyhow::Result<()> {
    stage.clear().await?;
    let limit = Rule::Crowd.limit(true, false);
    stage.published(&limit, Some("key-0")).await?;
    let client = Client::builder().deadline(Duration::from_secs(5)).connect(stage.url()).await?;
    let takes = stream::iter(0..buckets).map(|key| {
        let bucket = client.limit(limit.as_str()).key(format!("crowd-{key}"));
        async move { bucket.take(CROWD_TAKE).await.map(drop) }
    });
    Ok(takes.buffer_unordered(256).try_collect::<()>().await?)
}

/// Looks at the daemon's work for some seconds, from the end of one pass to that of another.
pub(super) async fn cost(stage: &mut Stage) -> anyhow::Result<Cost> {
    let (_, credited, before) = pass_ends(stage, Duration::ZERO).await?;
    let watch = Stopwatch::start();
    let (lag_ms, now, after) = pass_ends(stage, AT_LEAST).await?;
    let (seconds, credited, spent) = (watch.elapsed().as_secs_f64(), now - credited, after.since(&before));
    Ok(Cost {
        each: spent.of(&REFILLING).1 / credited.max(1.0),
        credited: credited / seconds,
        share: spent.cpu / 1e6 / seconds,
        lag_ms,
    })
}

/// Waits until a pass ends, not before `earliest` has passed: its lag, buckets credited so far, and Redis's counters.
async fn pass_ends(stage: &mut Stage, earliest: Duration) -> anyhow::Result<(f64, f64, Meter)> {
    let watch = Stopwatch::start();
    let (before, _) = stage.credited().await?;
    loop {
        sleep(LOOK_EVERY).await;
        let (credited, lag_ms) = stage.credited().await?;
        if (credited > before && watch.elapsed() >= earliest) || watch.elapsed() > AT_MOST {
            return Ok((lag_ms, credited, stage.meter().await?));
        }
    }
}
