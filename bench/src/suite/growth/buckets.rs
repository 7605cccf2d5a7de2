//! The daemon's work, by how many buckets it keeps topped up.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{sleep, timeout};
use topup_lab::{Summary, Table, clock::Stopwatch, count, fine, output::tell, short};

use super::grown::{Grown, bytes_each};
use crate::{
    catalog::Curve,
    closed_loop,
    fixture::credited,
    rules::{self, Rule},
    suite::{bench::Bench, refill},
};

/// The length of a round. A bucket as far from full as these is credited every 102.4 s, so a round credits each about once.
const WINDOW: Duration = Duration::from_millis(102_600);
/// A million takes by script last some 15 s here; a machine on which they last longer has shown enough.
const FILLED_WITHIN: Duration = Duration::from_secs(90);
/// As a daemon's account is kept, and figures settle, after buckets were filled.
const SETTLE: Duration = Duration::from_millis(500);

/// The daemon's work over one window.
#[derive(Clone, Copy, Debug)]
struct Work {
    credited: f64,
    /// CPU ms of Redis in a second.
    redis: f64,
    /// CPU ms of the daemon in a second.
    daemon: f64,
    lag_ms: f64,
}

pub(super) async fn grown(bench: &mut Bench<'_>) -> anyhow::Result<Grown> {
    let note = "Buckets of 1,000/s miss 400,000 tokens, and no worker takes from them. As far from full as that, each is \
                credited every 102.4 s, and a 102nd of them in a second. The table shows the cost of buckets that \
                never come near full. CPU is in ms for each second: 1,000 is one CPU. *p99 of raw* is that of a bare \
                `DECR` of 8 tasks meanwhile, and, in brackets, with the daemon stopped.";
    let header = [
        "",
        "credited/s",
        "Redis ms/s",
        "Redis µs a credit",
        "daemon ms/s",
        "lag ms",
        "bytes a bucket",
        "p99 of raw, µs",
    ];
    let mut table = Table::new(Curve::Buckets.title(), header).note(note);
    let mut missing = Vec::new();
    for size in [100, 1_000, 10_000, 100_000, 1_000_000] {
        tell(&format!("growth: {} active buckets", count(size as f64)));
        match point(bench, size).await {
            Ok(figures) => table.row(count(size as f64), figures),
            Err(error) => missing.push(format!("{} buckets: {error:#}", count(size as f64))),
        }
    }
    Ok(Grown { table, chart: None, missing })
}

async fn point(bench: &mut Bench<'_>, size: usize) -> anyhow::Result<[String; 7]> {
    bench.fixture.clear().await?;
    sleep(SETTLE).await;
    let empty = bench.fixture.counters().await?.memory;
    let filling = refill::fill(&mut bench.fixture, Rule::FarBelow, size);
    timeout(FILLED_WITHIN, filling).await.with_context(|| format!("not filled in {FILLED_WITHIN:?}"))??;
    sleep(SETTLE).await;
    let bytes = bench.fixture.counters().await?.memory - empty;
    let works = [work(bench).await?];
    let raw = refill::raw_meanwhile(bench);
    let with = closed_loop::measure_as_it_is(&mut bench.fixture, &bench.choices.found, &raw).await?;
    bench.fixture.kill_daemon().await;
    let without = closed_loop::measure_as_it_is(&mut bench.fixture, &bench.choices.found, &raw).await?;
    let config = rules::config(bench.fixture.url());
    bench.fixture.start_daemon(&config).await?;

    let summary = |of: fn(&Work) -> f64, text: fn(f64) -> String| {
        Summary::of(works.iter().map(of)).map_or_else(String::new, |summary| summary.text(text))
    };
    Ok([
        summary(|work| work.credited, count),
        summary(|work| work.redis, short),
        summary(|work| if work.credited > 0.0 { work.redis * 1e3 / work.credited } else { f64::NAN }, short),
        summary(|work| work.daemon, short),
        summary(|work| work.lag_ms, fine),
        bytes_each(bytes, size),
        format!("{} ({})", short(with.seen.p99), short(without.seen.p99)),
    ])
}

async fn work(bench: &mut Bench<'_>) -> anyhow::Result<Work> {
    let fixture = &mut bench.fixture;
    let (so_far, _) = credited(fixture).await?;
    let (before, daemon, watch) = (fixture.counters().await?, fixture.daemon_cpu(), Stopwatch::start());
    sleep(WINDOW).await;
    let seconds = watch.elapsed().as_secs_f64();
    let (spent, daemon) = (fixture.counters().await?.since(&before), fixture.daemon_cpu() - daemon);
    let (now, lag_ms) = credited(fixture).await?;
    Ok(Work {
        credited: (now - so_far) / seconds,
        redis: spent.cpu / 1e3 / seconds,
        daemon: daemon * 1e3 / seconds,
        lag_ms,
    })
}
