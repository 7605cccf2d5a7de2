//! `topup-compare simulate`.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, anyhow, bail};
use tokio::time::timeout;
use topup_daemon::{config::Config, publish::desired_limits};
use topup_wire::{
    connection::connect_lazily,
    limit::{Limit, LimitName},
    scripts,
};

use super::Simulate;
use crate::{
    replay,
    report::{answer, complain},
    simulate::{self, BEGIN},
};

/// A person waits for this at most.
const TIMEOUT: Duration = Duration::from_secs(5);
/// `sysexits.h`: `EX_CONFIG`.
const WRONG_CONFIG: u8 = 78;

pub(super) fn main(args: &Simulate) -> anyhow::Result<ExitCode> {
    let limit = match &args.redis {
        Some(url) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(published(url, &args.limit))?
        }
        None => match Config::load(&args.config) {
            Ok(config) => of_config(&config, &args.limit)?,
            Err(problems) => {
                complain(&problems.to_string());
                return Ok(ExitCode::from(WRONG_CONFIG));
            }
        },
    };
    let trace = replay::read(&args.trace)?;
    let simulated = simulate::simulate(&limit, &trace)?;
    answer(&if args.json { serde_json::to_string_pretty(&simulated)? } else { simulated.text() });
    Ok(ExitCode::SUCCESS)
}

fn of_config(config: &Config, name: &str) -> anyhow::Result<Limit> {
    let limits = desired_limits(config, BEGIN, |limit| limit.name.as_str() == name);
    let found = limits.into_iter().map(|desired| desired.limit).find(|limit| limit.name.as_str() == name);
    found.ok_or_else(|| {
        let names: Vec<String> = config.limits.keys().map(ToString::to_string).collect();
        anyhow!("the config has no limit {name:?}: name one of {}", names.join(", "))
    })
}

async fn published(url: &str, name: &str) -> anyhow::Result<Limit> {
    let (mut connection, name) = (connect_lazily(url).context("the Redis URL")?, name.parse::<LimitName>()?);
    let read = timeout(TIMEOUT, scripts::read_limit(&mut connection, &name)).await;
    match read.with_context(|| format!("Redis did not answer within {TIMEOUT:?}"))?.context("Redis")? {
        Some(published) => Ok(published.limit),
        None => bail!("no limit {name} is published in this Redis"),
    }
}
