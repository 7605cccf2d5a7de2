//! `topup-compare watch`.

use std::{collections::BTreeMap, env, process::ExitCode, time::Duration};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use tokio::time::{MissedTickBehavior, interval, timeout};
use topup_wire::{
    connection::{Connection, connect_lazily},
    counts::{Count, Counts},
    limit::{LimitName, Percent},
    scripts,
};

use crate::report::answer;

/// A person waits for this at most.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The columns are named again after so many lines.
const PAGE: u64 = 20;
/// The counts that are shown.
const SHOWN: [Count; 7] = [
    Count::BothAllowed,
    Count::OnlyOurs,
    Count::OnlyLazy,
    Count::BothDenied,
    Count::Uncompared,
    Count::Difference,
    Count::LargestDifference,
];

/// A limit whose takes are compared while it runs.
#[derive(Clone, Debug, Args)]
pub(super) struct Watch {
    /// The limit, as in [limit.NAME] of the daemon's config, with compare_percent above 0
    limit: String,
    /// The Redis of the daemon [default: TOPUP_REDIS_URL, else redis://127.0.0.1:6379]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Time between two looks: 500ms, 2s, 1min
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = every)]
    every: Duration,
    /// End after so many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
    /// Answer in JSON, an object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Watch) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn watch(args: &Watch) -> anyhow::Result<()> {
    let url = args.redis.clone().or_else(|| env::var("TOPUP_REDIS_URL").ok());
    let url = url.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let (mut connection, name) =
        (connect_lazily(&url).context("the Redis URL")?, args.limit.parse::<LimitName>()?);
    let mut ticks = interval(args.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut lines) = (None, 0);
    while args.times.is_none_or(|times| lines < times) {
        ticks.tick().await;
        let now = look(&mut connection, &name).await?;
        // The first line says how things stand, each later one what has come since.
        let since = before.map_or(now, |before| now.since(&before));
        if args.json {
            let counts: BTreeMap<_, _> = SHOWN.map(|count| (count.as_str(), since.get(count))).into();
            answer(&serde_json::to_string(&counts)?);
        } else {
            if lines.is_multiple_of(PAGE) {
                answer(&header());
            }
            answer(&line(&since, before.is_none()));
        }
        (before, lines) = (Some(now), lines + 1);
    }
    Ok(())
}

/// Counts of the limit `name` since it last changed.
async fn look(connection: &mut Connection, name: &LimitName) -> anyhow::Result<Counts> {
    let both = async {
        let limit = scripts::read_limit(connection, name).await?.map(|published| published.limit);
        Ok::<_, redis::RedisError>((limit, scripts::counts(connection, name).await?.0))
    };
    let asked = timeout(TIMEOUT, both).await;
    let (limit, counts) =
        asked.map_err(|_| anyhow!("Redis did not answer within {TIMEOUT:?}"))?.context("Redis")?;
    match limit {
        None => {
            bail!("no limit {name} is published: is topupd running, and is [limit.{name}] in its config?")
        }
        Some(limit) if limit.compared == Percent::NONE => {
            bail!(
                "limit {name} is not compared: write compare_percent = 1 under [limit.{name}], and reload topupd"
            )
        }
        Some(_) => Ok(counts),
    }
}

fn header() -> String {
    format!(
        "{:>9}  {:>12}  {:>10}  {:>10}  {:>12}  {:>12}  {:>12}  {:>12}",
        "", "both allow", "only ours", "only lazy", "both deny", "tokens apart", "at most", "not compared"
    )
}

fn line(counts: &Counts, all: bool) -> String {
    let [both, ours, lazy, neither, uncompared, apart, most] = SHOWN.map(|count| counts.get(count));
    let mean = apart as f64 / (both + ours + lazy + neither).max(1) as f64;
    let when = if all { "so far" } else { "since" };
    format!(
        "{when:>9}  {both:>12}  {ours:>10}  {lazy:>10}  {neither:>12}  {mean:>12.2}  {most:>12}  {uncompared:>12}"
    )
}

fn every(text: &str) -> Result<Duration, String> {
    let every = humantime::parse_duration(text);
    let every = every.map_err(|error| format!("{error}: write a number and a unit, such as 500ms or 2s"))?;
    if every < Duration::from_millis(10) { Err("10ms at least".to_owned()) } else { Ok(every) }
}
