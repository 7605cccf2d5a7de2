//! Limits in one config.

use std::time::Duration;

use tokio::time::sleep;
use topup_lab::{Table, clock::Stopwatch, count, fine, output::tell, short};

use super::{
    grown::{Grown, bytes_each, rounds},
    takes,
};
use crate::{
    catalog::Curve,
    fixture,
    limiter::kind::Limiter,
    measurement::Measurement,
    rules::{self, Rule},
    suite::bench::Bench,
};

/// Time for which Redis and the daemon are watched without takes: many looks at each limit.
const IDLE: Duration = Duration::from_secs(3);
/// All workers and daemons have read a new publication after this.
const SETTLE: Duration = Duration::from_secs(1);
/// The second capacity of the first limit: what a reload changes.
const OTHER: u64 = 999_999_999;

pub(super) async fn grown(bench: &mut Bench<'_>) -> anyhow::Result<Grown> {
    let note = "*Published* is the time from the daemon's start on an empty Redis until every bucket has been looked \
                at. *Reload* is the time from a HUP that changes one limit until the change is in force. *Restart* \
                begins with a daemon that finds all published. *Idle* is without takes, CPU in ms for each second. \
                For *÷ raw*, 256 tasks of one process take from all limits at random, each below full.";
    let header = [
        "",
        "published, ms",
        "reload, ms",
        "restart, ms",
        "idle Redis ms/s",
        "idle daemon ms/s",
        "idle commands/s",
        "daemon MB",
        "bytes a limit",
        "÷ raw (min–max)",
        "decisions/s",
        "p50 µs",
        "p99 µs",
        "Redis CPU µs",
    ];
    let mut table = Table::new(Curve::Limits.title(), header).note(note);
    let mut missing = Vec::new();
    for size in [1, 10, 100, 1_000, 10_000] {
        tell(&format!("growth: {} limits", count(size as f64)));
        match point(bench, size).await {
            Ok(figures) => table.row(count(size as f64), figures),
            Err(error) => missing.push(format!("{} limits: {error:#}", count(size as f64))),
        }
    }
    bench.fixture.kill_daemon().await;
    bench.fixture.clear().await?;
    let config = rules::config(bench.fixture.url());
    bench.fixture.start_daemon(&config).await?;
    Ok(Grown { table, chart: None, missing })
}

async fn point(bench: &mut Bench<'_>, size: usize) -> anyhow::Result<Vec<String>> {
    let (time, rounds) = (bench.choices.time(), rounds(bench.choices));
    let fixture = &mut bench.fixture;
    fixture.kill_daemon().await;
    fixture.clear().await?;
    let empty = fixture.counters().await?.memory;
    let url = fixture.url().to_owned();
    let config = |first| rules::apart(&url, size, first);

    let watch = Stopwatch::start();
    fixture.start_daemon(&config(Rule::Apart.capacity())).await?;
    fixture.ready().await?;
    let published = watch.elapsed();
    let bytes = fixture.counters().await?.memory - empty;

    let watch = Stopwatch::start();
    fixture.daemon()?.reload(&config(OTHER))?;
    fixture::has_capacity(fixture, &rules::apart_name(0), OTHER).await?;
    let reload = watch.elapsed();

    fixture.kill_daemon().await;
    let watch = Stopwatch::start();
    fixture.start_daemon(&config(OTHER)).await?;
    fixture.ready().await?;
    let restart = watch.elapsed();

    sleep(SETTLE).await;
    let (before, used, watch) = (fixture.counters().await?, fixture.daemon_cpu(), Stopwatch::start());
    sleep(IDLE).await;
    let seconds = watch.elapsed().as_secs_f64();
    let (idle, used) = (fixture.counters().await?.since(&before), fixture.daemon_cpu() - used);
    let memory = fixture.daemon_memory();

    let mut found = Vec::new();
    for _ in 0..rounds {
        let measurement = |limiter| Measurement::new(limiter, Rule::Apart, size, time);
        let raw = bench.try_measure(&measurement(Limiter::Raw)).await?.rate();
        found.push((bench.try_measure(&measurement(Limiter::Topup)).await?, raw));
    }
    let [ratio, rate, p50, p99, cpu, ..] = takes::row(&found);
    let millis = [published, reload, restart].map(|took| short(took.as_secs_f64() * 1e3));
    let idle = [fine(idle.cpu / 1e3 / seconds), fine(used * 1e3 / seconds), count(idle.calls() / seconds)];
    let weights = [short(memory / 1e6), bytes_each(bytes, size)];
    let figures = millis.into_iter().chain(idle).chain(weights).chain([ratio, rate, p50, p99, cpu]);
    Ok(figures.collect())
}
