//! Costs of refilling buckets: far below full, nearer to full, and credited at each tick.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;
use topup::Client;
use topup_lab::{Fixture, Table, clock::Stopwatch, output::tell, short};

use crate::{
    closed_loop,
    fixture::credited,
    limiter::kind::Limiter,
    measurement::{Found, Measurement},
    rules::{Form, Rule},
};

use super::bench::{Bench, KEYS};

pub(super) const TITLE: &str = "Refill";
const BUCKETS: usize = 100_000;
const TICKED: usize = 10_000;
/// For so long the daemon is watched: each bucket far below full is credited once in this time ...
const FAR_FOR: Duration = Duration::from_millis(102_400);
/// ... each that is nearer two or three times ...
const NEAR_FOR: Duration = Duration::from_millis(4_800);
/// ... and each that is credited at ticks many times.
const TICKED_FOR: Duration = Duration::from_secs(4);

/// Work of the daemon on its buckets, without takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// µs of scripts for each bucket credited.
    pub(super) each: f64,
    /// µs of the whole of Redis, network included, for each.
    pub(super) whole: f64,
    /// Credited in a second.
    pub(super) credited: f64,
    /// Part of one CPU that Redis uses.
    pub(super) share: f64,
    pub(super) lag_ms: f64,
}

/// Results of one kind of buckets.
struct Looked {
    cost: Cost,
    busy: Found,
    idle: Found,
}

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "Buckets of 1,000/s at the default tick of 100 ms. The first 100,000 are full in minutes, so each is \
                credited every 102.4 s. The second 100,000 are full in 8 s and are credited every 1.6 s, as often as \
                any with catch-up. The last 10,000 have the pure form (`catch_up = false`) and are credited at each \
                tick. Latencies are those of raw, a bare `DECR`, in µs.";
    let header = ["", "100,000, far below full", "100,000, nearer", "10,000, at each tick"];
    let mut table = Table::new(TITLE, header).note(note);
    let mut found = Vec::new();
    for rule in [Rule::FarBelow, Rule::Filling, Rule::Ticked] {
        found.push(looked_at(bench, rule).await?);
    }
    let config = crate::rules::config(bench.fixture.url());
    bench.fixture.start_daemon(&config).await?;

    let mut row = |name: &str, figure: &dyn Fn(&Looked) -> f64| {
        table.row(name, found.iter().map(|looked| short(figure(looked))));
    };
    row("part of one CPU that Redis uses", &|looked| looked.cost.share);
    row("buckets credited a second", &|looked| looked.cost.credited);
    row("µs of scripts per bucket credited", &|looked| looked.cost.each);
    row("µs of Redis per bucket credited", &|looked| looked.cost.whole);
    row("lag of the last refill, ms", &|looked| looked.cost.lag_ms);
    row("p50, 8 tasks, with refills", &|looked| looked.busy.seen.p50);
    row("p50, 8 tasks, without a daemon", &|looked| looked.idle.seen.p50);
    row("p99, 8 tasks, with refills", &|looked| looked.busy.seen.p99);
    row("p99, 8 tasks, without a daemon", &|looked| looked.idle.seen.p99);
    row("p999, 8 tasks, with refills", &|looked| looked.busy.seen.p999);
    row("p999, 8 tasks, without a daemon", &|looked| looked.idle.seen.p999);
    Ok(table)
}

/// Costs of refilling buckets of `rule`, and the wait of a bare `DECR` with and without a daemon.
async fn looked_at(bench: &mut Bench<'_>, rule: Rule) -> anyhow::Result<Looked> {
    let buckets = if rule == Rule::Ticked { TICKED } else { BUCKETS };
    tell(&format!("refill: {buckets} buckets"));
    let config = crate::rules::config(bench.fixture.url());
    bench.fixture.start_daemon(&config).await?;
    fill(&mut bench.fixture, rule, buckets).await?;
    let cost = cost(&mut bench.fixture, rule).await?;
    if rule == Rule::Filling {
        fill(&mut bench.fixture, rule, buckets).await?;
    }
    let raw = raw_meanwhile(bench);
    let busy = closed_loop::measure_as_it_is(&mut bench.fixture, &bench.choices.found, &raw).await?;
    bench.fixture.kill_daemon().await;
    let idle = closed_loop::measure_as_it_is(&mut bench.fixture, &bench.choices.found, &raw).await?;
    Ok(Looked { cost, busy, idle })
}

/// Bare `DECR`s of 8 tasks, beside a refill.
pub(super) fn raw_meanwhile(bench: &Bench<'_>) -> Measurement {
    let time = bench.choices.time() * 2;
    Measurement { tasks: 8, ..Measurement::new(Limiter::Raw, Rule::Draining, KEYS, time) }
}

/// Brings `buckets` buckets of `rule` below full, on an empty Redis.
pub(super) async fn fill(fixture: &mut Fixture, rule: Rule, buckets: usize) -> anyhow::Result<()> {
    fixture.clear().await?;
    let limit = rule.limit(true, Form::TokenBucket);
    fixture.published(&[(&limit, Some("key-0"))]).await?;
    let client = Client::builder().deadline(Duration::from_secs(5)).connect(fixture.url()).await?;
    let takes = stream::iter(0..buckets).map(|key| {
        let bucket = client.limit(limit.as_str()).key(format!("drained-{key}"));
        async move { bucket.take(rule.take_to_fill()).await.map(drop) }
    });
    Ok(takes.buffer_unordered(256).try_collect::<()>().await?)
}

/// Looks at the daemon's work on buckets of `rule` for as long as each of them has its turn at least once.
pub(super) async fn cost(fixture: &mut Fixture, rule: Rule) -> anyhow::Result<Cost> {
    let (so_far, _) = credited(fixture).await?;
    let (before, watch) = (fixture.counters().await?, Stopwatch::start());
    let time = match rule {
        Rule::Ticked => TICKED_FOR,
        Rule::Filling => NEAR_FOR,
        _ => FAR_FOR,
    };
    sleep(time).await;
    let (spent, seconds) = (fixture.counters().await?.since(&before), watch.elapsed().as_secs_f64());
    let (now, lag_ms) = credited(fixture).await?;
    let credited = now - so_far;
    Ok(Cost {
        each: spent.of(&["eval", "evalsha"]).1 / credited.max(1.0),
        whole: spent.cpu / credited.max(1.0),
        credited: credited / seconds,
        share: spent.cpu / 1e6 / seconds,
        lag_ms,
    })
}
