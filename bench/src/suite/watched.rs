//! The price of being watched: refills with and without scrapes of `/metrics` and open pages.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use anyhow::{Context, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::{task::JoinSet, time::sleep};
use topup::Client;
use topup_lab::{Fixture, Summary, Table, clock::Stopwatch, count, output::tell, short};

use super::{
    bench::Bench,
    observers::{Observed, ended, get, observe},
};
use crate::rules::{self, apart_name};

pub(super) const TITLE: &str = "Watched refills";
const LIMITS: usize = 1_000;
/// Active buckets of each limit.
const KEYS: usize = 100;
const TICK: Duration = Duration::from_secs(4);
/// All shards have become active by then.
const MOST_TICKS: usize = 30;
/// Each bucket is credited at each tick, so that there is steady work.
const TERMS: &str = "capacity = 1_000_000\nrate = \"1000/s\"\ncatch_up = false";
/// Tokens taken of each bucket: it is full again after minutes, longer than the measurement.
const TAKEN: u64 = 900_000;
/// Each figure takes so many times `--seconds`.
const LONGER: u32 = 8;

/// Totals of the daemon and of Redis at one instant, or the difference of two.
#[derive(Clone, Copy, Debug)]
struct Totals {
    /// Sum of all lags in s, and their number.
    lag: [f64; 2],
    /// Lags of more than 25.6 ms.
    late: f64,
    /// Sum of the times of all slices in s, and their number.
    slice: [f64; 2],
    credits: f64,
    redis_micros: f64,
    daemon_seconds: f64,
}

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "1,000 limits with 100,000 buckets in use, each credited every 4 s, and nobody takes. *Watched* is with a scrape of \
                `/metrics` each second and four open pages. Lag is the time by which passes over shards are late; *late* \
                is the share of those later than 25.6 ms. A slice is one refill script, from sending to reply. The two take \
                turns.";
    let header = ["", "nobody looks", "watched"];
    let mut table = Table::new(TITLE, header).note(note);
    let socket = bench.fixture.redis().folder().join("admin.sock");
    start(&mut bench.fixture, &socket).await?;
    let mut found = [const { Vec::new() }; 2];
    let observed = Arc::new(Observed::default());
    for round in 1..=bench.choices.rounds() {
        tell(&format!("watched, round {round}"));
        for (watched, found) in [false, true].into_iter().zip(&mut found) {
            let observers = if watched { observe(&socket, &observed) } else { JoinSet::new() };
            let (before, watch) = (totals(&mut bench.fixture, &socket).await?, Stopwatch::start());
            sleep(bench.choices.time() * LONGER).await;
            let after = totals(&mut bench.fixture, &socket).await?;
            found.push((after.since(before), watch.elapsed().as_secs_f64()));
            ended(observers).await?;
        }
    }
    bench.fixture.start_daemon(&rules::config(bench.fixture.url())).await?;

    let mut row = |name: &str, figure: &dyn Fn(&Totals, f64) -> f64| {
        let cells = found.iter().map(|found| {
            let figures = found.iter().map(|(totals, seconds)| figure(totals, *seconds));
            Summary::of(figures).map_or_else(String::new, |summary| summary.text(short))
        });
        table.row(name, cells);
    };
    row("mean lag, ms", &|totals, _| totals.lag[0] * 1e3 / totals.lag[1].max(1.0));
    row("late, %", &|totals, _| totals.late * 100.0 / totals.lag[1].max(1.0));
    row("mean time of a slice, µs", &|totals, _| totals.slice[0] * 1e6 / totals.slice[1].max(1.0));
    row("buckets credited a second", &|totals, seconds| totals.credits / seconds);
    row("Redis CPU, ms/s", &|totals, seconds| totals.redis_micros / 1e3 / seconds);
    row("daemon CPU, ms/s", &|totals, seconds| totals.daemon_seconds * 1e3 / seconds);
    let scrapes = observed.scrapes.load(Relaxed) as f64;
    let micros = observed.scrape_micros.load(Relaxed) as f64;
    table.row("time of a scrape, ms", [String::new(), short(micros / 1e3 / scrapes)]);
    let bytes = observed.page_bytes.load(Relaxed) as f64;
    table.row("bytes that pages got", [String::new(), count(bytes)]);
    Ok(table)
}

/// Starts a daemon whose admin server listens on `socket`, with all limits and their buckets below full.
async fn start(fixture: &mut Fixture, socket: &Path) -> anyhow::Result<()> {
    fixture.kill_daemon().await;
    fixture.clear().await?;
    let mut config = format!(
        "[redis]\nurl = {:?}\n\n[daemon]\ntick = \"4s\"\n\n[admin]\nlisten = \"unix:{}\"\n",
        fixture.url(),
        socket.display()
    );
    for limit in 0..LIMITS {
        let name = apart_name(limit);
        config.push_str(&format!("\n[limit.{name}]\nkeyed = true\n{TERMS}\n"));
    }
    fixture.start_daemon(&config).await?;
    fixture.ready().await?;
    let client = Client::builder().deadline(Duration::from_secs(5)).connect(fixture.url()).await?;
    let takes = stream::iter(0..LIMITS * KEYS).map(|i| {
        let bucket = client.limit(apart_name(i % LIMITS)).key(format!("key-{}", i / LIMITS));
        async move { bucket.take(TAKEN).await.map(drop) }
    });
    takes.buffer_unordered(256).try_collect::<()>().await?;
    let all = (LIMITS * KEYS) as f64;
    for _ in 0..MOST_TICKS {
        let before = totals(fixture, socket).await?;
        sleep(TICK).await;
        if totals(fixture, socket).await?.since(before).credits > 0.9 * all {
            return Ok(());
        }
    }
    bail!("the daemon does not credit all buckets at each tick")
}

async fn totals(fixture: &mut Fixture, socket: &Path) -> anyhow::Result<Totals> {
    let metrics = get(socket, "/metrics").await?;
    let number = |name: &str| -> anyhow::Result<f64> {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("/metrics has no {name}"))?.parse()?)
    };
    let lag = [number("topup_refill_lag_seconds_sum")?, number("topup_refill_lag_seconds_count")?];
    let slice = [number("topup_refill_slice_seconds_sum")?, number("topup_refill_slice_seconds_count")?];
    let in_time = number("topup_refill_lag_seconds_bucket{le=\"0.0256\"}")?;
    Ok(Totals {
        lag,
        late: lag[1] - in_time,
        slice,
        credits: number("topup_refill_credits_total")?,
        redis_micros: fixture.counters().await?.cpu,
        daemon_seconds: fixture.daemon_cpu(),
    })
}

// === impl Totals ===

impl Totals {
    fn since(self, before: Self) -> Self {
        Self {
            lag: [self.lag[0] - before.lag[0], self.lag[1] - before.lag[1]],
            late: self.late - before.late,
            slice: [self.slice[0] - before.slice[0], self.slice[1] - before.slice[1]],
            credits: self.credits - before.credits,
            redis_micros: self.redis_micros - before.redis_micros,
            daemon_seconds: self.daemon_seconds - before.daemon_seconds,
        }
    }
}
