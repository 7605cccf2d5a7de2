//! `topup-compare advise`.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use topup_daemon::config::{Config, LimitConfig, SupplyConfig};
use topup_wire::limit::Algorithm;

use super::{args::Where, run::on_fixture};
use crate::{
    advise::{self, ALIKE, Prices, coarsest},
    replay,
    report::answer,
    rule::Rule,
};

/// `sysexits.h`: `EX_CONFIG`.
const WRONG_CONFIG: u8 = 78;

/// A config, and how it is asked.
#[derive(Clone, Debug, Args)]
pub(super) struct Advise {
    #[command(flatten)]
    place: Where,
    /// The daemon's config
    #[arg(long, value_name = "FILE", default_value = "config.toml")]
    config: PathBuf,
    /// A trace of its load: CSV with time,key,count, or a web server's access log in the combined format
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The limit that is asked so, where the config has several
    #[arg(long, value_name = "NAME", requires = "trace")]
    limit: Option<String>,
    /// Find the smallest capacity and rate that deny at most so many percent of the takes in the trace
    ///
    /// A bucket fills in the same time as now.
    #[arg(long, value_name = "PERCENT", requires = "trace", value_parser = percent)]
    deny: Option<f64>,
    /// Print a patch of the config that does as advised for the limit of the trace; comments stay
    #[arg(long, requires = "trace", conflicts_with = "json")]
    emit: bool,
    /// Worker processes, to measure prices with
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Advise) -> anyhow::Result<ExitCode> {
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(problems) => {
            crate::report::complain(&problems.to_string());
            return Ok(ExitCode::from(WRONG_CONFIG));
        }
    };
    let limit = args.limit.clone().or_else(|| only(&config));
    let trace = match (&args.trace, &limit) {
        (None, _) => None,
        (Some(_), None) => bail!("the config has several limits: say of which the trace is, --limit NAME"),
        (Some(_), Some(name)) if !config.limits.contains_key(name.as_str()) => {
            bail!("the config has no limit {name:?}: name one of {}", names(&config))
        }
        (Some(path), Some(name)) => Some((name.as_str(), replay::read(path)?)),
    };
    on_fixture(&args.place, args.workers, async |fixture| {
        let prices = Prices::measure(fixture, &ALIKE).await?;
        let trace = trace.as_ref().map(|(name, trace)| (*name, trace));
        let mut advice = advise::advise(&config, trace, &prices);
        if let (Some(percent), Some((name, trace))) = (args.deny, trace)
            && let Some(LimitConfig { capacity, supply: SupplyConfig::Rate(rate), .. }) =
                config.limits.get(name)
        {
            let advice = advice.iter_mut().filter(|advice| advice.limit == name);
            advice.for_each(|advice| advice.fit(trace, *capacity, *rate, percent / 100.0));
        }
        if args.emit {
            let advice: Vec<_> =
                advice.into_iter().filter(|advice| Some(&advice.limit) == limit.as_ref()).collect();
            let file = args.config.display().to_string();
            let text = fs::read_to_string(&args.config).with_context(|| file.clone())?;
            answer(advise::patch(&file, &text, &advice)?.trim_end());
            return Ok(());
        }
        answer(&if args.json {
            serde_json::to_string_pretty(&advice).context("advice")?
        } else {
            let topped: Vec<Rule> = config
                .limits
                .values()
                .filter(|limit| limit.algorithm == Algorithm::TokenBucket)
                .filter_map(|limit| match limit.supply {
                    SupplyConfig::Rate(rate) => Some(Rule::new(limit.capacity.get(), rate)),
                    _ => None,
                })
                .collect();
            advise::text(&advice, config.tick, coarsest(topped.iter())).trim_end().to_owned()
        });
        Ok(())
    })
}

/// The one limit there is.
fn only(config: &Config) -> Option<String> {
    let mut names = config.limits.keys();
    names.next().filter(|_| names.next().is_none()).map(ToString::to_string)
}

fn names(config: &Config) -> String {
    config.limits.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
    percent.ok_or_else(|| "write a number from 0 to below 100, such as 1 or 0.1".to_owned())
}
