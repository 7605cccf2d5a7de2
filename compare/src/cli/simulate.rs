//! `topup-compare simulate`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use tokio::time::timeout;
use topup_daemon::{config::Config, publish::desired_limits};
use topup_wire::{
    connection::connect_lazily,
    limit::{Assigned, Limit, LimitName, PlanSources},
    scripts::{self, AllAssigned},
};

use crate::{
    replay::{self, Trace},
    report::{answer, complain},
    simulate::{self, BEGIN, Tried},
};

/// A person waits for this at most.
const TIMEOUT: Duration = Duration::from_secs(5);
/// `sysexits.h`: `EX_CONFIG`.
const WRONG_CONFIG: u8 = 78;

/// A limit, and a trace to try it on.
#[derive(Clone, Debug, Args)]
pub(super) struct Simulate {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The trace: CSV with time,key,count, or a web server's access log in the combined format
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The daemon's config
    #[arg(long, value_name = "FILE", default_value = "config.toml")]
    config: PathBuf,
    /// Take the limit as published in this Redis, instead of the config
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    redis: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Simulate) -> anyhow::Result<ExitCode> {
    let trace = replay::read(&args.trace)?;
    let tried = match &args.redis {
        Some(url) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let read =
                runtime.block_on(async { timeout(TIMEOUT, published(url, &args.limit, &trace)).await });
            read.with_context(|| format!("Redis did not answer within {TIMEOUT:?}"))??
        }
        None => match Config::load(&args.config) {
            Ok(config) => of_config(&config, &args.limit, &trace)?,
            Err(problems) => {
                complain(&problems.to_string());
                return Ok(ExitCode::from(WRONG_CONFIG));
            }
        },
    };
    let simulated = simulate::simulate(&tried, &trace)?;
    answer(&if args.json { serde_json::to_string_pretty(&simulated)? } else { simulated.text() });
    Ok(ExitCode::SUCCESS)
}

fn of_config(config: &Config, name: &str, trace: &Trace) -> anyhow::Result<Tried> {
    let limits = desired_limits(config, BEGIN, |limit| limit.name.as_str() == name);
    let (mut limits, plans): (Vec<Limit>, Vec<Limit>) =
        limits.into_iter().map(|desired| desired.limit).partition(|limit| limit.name.as_str() == name);
    let limit = limits.pop().ok_or_else(|| {
        let names: Vec<String> = config.limits.keys().map(ToString::to_string).collect();
        anyhow!("the config has no limit {name:?}: name one of {}", names.join(", "))
    })?;
    let target = |key: &String| Some((key.clone(), limit.plans.of(key, BEGIN)?.1.target));
    Ok(Tried { targets: trace.keys.iter().filter_map(target).collect(), plans, limit: limit.clone() })
}

/// The limit as published, its plans, and who has them now.
async fn published(url: &str, name: &str, trace: &Trace) -> anyhow::Result<Tried> {
    let (mut connection, name) = (connect_lazily(url).context("the Redis URL")?, name.parse::<LimitName>()?);
    let Some(read) = scripts::read_limit(&mut connection, &name).await.context("Redis")? else {
        bail!("no limit {name} is published in this Redis");
    };
    let mut plans = Vec::new();
    for plan in read.limit.plans.names() {
        plans.extend(scripts::read_limit(&mut connection, &name.plan(plan)).await?.map(|plan| plan.limit));
    }
    let by_hand = scripts::all_assigned(&mut connection, &name).await?;
    let by_source = scripts::all_assigned(&mut connection, &name.source()).await?;
    let assigned = |all: &AllAssigned, key: &str| {
        Some(Assigned { assignment: all.keys.of(key), before: None, at: all.now, past: Vec::new() })
    };
    let target = |key: &String| {
        let sources = PlanSources {
            key,
            config: &read.limit.plans,
            config_before: &read.plans_before,
            config_at: read.plans_at,
            config_past: &read.plans_past,
            by_hand: assigned(&by_hand, key),
            by_source: assigned(&by_source, key),
        };
        Some((key.clone(), sources.at(by_hand.now).0?))
    };
    let targets = trace.keys.iter().filter_map(target).collect();
    Ok(Tried { targets, plans, limit: read.limit.clone() })
}
