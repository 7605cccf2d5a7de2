//! `topupd define` and `topupd undefine`: limits that no config has, as a program defines them.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use futures_util::FutureExt;
use serde_json::json;
use tokio::time::{sleep, timeout};
use topup_wire::{
    claims::Owner,
    limit::{Algorithm, CodeTerms, LimitName, OnChange},
    publishing::{self, DEFINED_FOR, DefineError, Defined},
};

use super::{
    args::{Query, parse_duration},
    exit::Exit,
    output::print_answer,
    redis::{Failure, connect_checked, run_as},
};
use crate::text::utc;

/// The longest time for a definition. A change of terms takes 0.75 s.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd define tenant-7 --capacity 100 --rate 10/s --keyed --owner billing --expires-in 30d
  topupd define sms --algorithm sliding-window --window 1/min --window 5/h")]
pub(super) struct Define {
    /// The name of the limit, which no config has
    limit: LimitName,
    /// The algorithm, as in a config
    #[arg(long, default_value_t)]
    algorithm: Algorithm,
    /// The most tokens in a bucket
    #[arg(long, value_name = "N", requires = "rate", conflicts_with = "window")]
    capacity: Option<u64>,
    /// Tokens per interval, as in a config: 10/s, 500/min
    #[arg(long, requires = "capacity")]
    rate: Option<String>,
    /// The most tokens within a window, such as 100/min; several for sliding-window
    #[arg(long, value_name = "N/TIME")]
    window: Vec<String>,
    /// A bucket for each key
    #[arg(long)]
    keyed: bool,
    /// The effect of a change of the capacity: keep, proportional or reset
    #[arg(long, value_name = "WORD", default_value = "keep")]
    on_change: OnChange,
    /// The owner, who alone may change or end the definition
    #[arg(long, default_value = "code")]
    owner: Owner,
    /// The time after which the limit ends unless it is renewed
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = parse_duration)]
    expires_in: Duration,
    #[command(flatten)]
    query: Query,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd undefine tenant-7 --owner billing")]
pub(super) struct Undefine {
    /// The limit
    limit: LimitName,
    /// The owner of its definition
    #[arg(long, default_value = "code")]
    owner: Owner,
    #[command(flatten)]
    query: Query,
}

pub(super) fn define(args: &Define) -> Exit {
    run_as(args.query.json, &args.query.connect, async {
        let limit = args.terms()?.limit(args.limit).map_err(|problem| Failure::Usage(anyhow!(problem)))?;
        if !(DEFINED_FOR.0..=DEFINED_FOR.1).contains(&args.expires_in) {
            return Err(Failure::Usage(anyhow!("a limit is defined for 1s to 366d: name such a time")));
        }
        let connection = connect_checked(&args.query.connect).await?;
        let wait = |time| sleep(time).boxed();
        let defining = publishing::define(&connection, &limit, &args.owner, args.expires_in, wait);
        let late = |_| {
            let problem = anyhow!("Redis did not answer within {LONGEST:?}: check its URL and that it runs");
            Failure::Undecided(problem)
        };
        let defined = timeout(LONGEST, defining).await.map_err(late)?;
        let (defined, until) = defined.map_err(|error| failure(&args.limit, error))?;
        let (word, until) = (word(defined), utc(until));
        let (limit, owner) = (args.limit.as_str(), args.owner.as_str());
        let answer = json!({ "limit": limit, "owner": owner, "defined": word, "until": until });
        let text = format!("limit {limit}: {word}, owner {owner}, until {until}");
        print_answer(args.query.json, &answer, &text);
        Ok(Exit::Done)
    })
}

pub(super) fn undefine(args: &Undefine) -> Exit {
    run_as(args.query.json, &args.query.connect, async {
        let connection = connect_checked(&args.query.connect).await?;
        // A limit may have a million buckets: no timeout.
        let undefined = publishing::undefine(&connection, &args.limit, &args.owner)
            .await
            .map_err(|e| failure(&args.limit, e))?;
        let text = match undefined {
            true => format!("removed limit {}, with all its buckets", args.limit),
            false => format!("limit {} is not defined", args.limit),
        };
        let answer = json!({ "limit": args.limit.as_str(), "removed": undefined });
        print_answer(args.query.json, &answer, &text);
        Ok(Exit::Done)
    })
}

// === impl Define ===

impl Define {
    /// The terms of the arguments.
    fn terms(&self) -> Result<CodeTerms, Failure> {
        let windows: Vec<&str> = self.window.iter().map(String::as_str).collect();
        let rated = self.capacity.zip(self.rate.as_deref());
        let needs = |what: &str| Failure::Usage(anyhow!("{} needs {what}", self.algorithm));
        let rated = || rated.ok_or_else(|| needs("--capacity and --rate"));
        let window = || match windows[..] {
            [window] => Ok(window),
            _ => Err(needs("one --window")),
        };
        let terms = match self.algorithm {
            Algorithm::TokenBucket => rated().map(|(capacity, rate)| CodeTerms::token_bucket(capacity, rate)),
            Algorithm::LazyTokenBucket => {
                rated().map(|(capacity, rate)| CodeTerms::lazy_token_bucket(capacity, rate))
            }
            Algorithm::Gcra => rated().map(|(capacity, rate)| CodeTerms::gcra(capacity, rate)),
            Algorithm::LeakyBucket => rated().map(|(capacity, rate)| CodeTerms::leaky_bucket(capacity, rate)),
            Algorithm::FixedWindow => window().map(CodeTerms::fixed_window),
            Algorithm::SlidingWindow if windows.is_empty() => Err(needs("--window")),
            Algorithm::SlidingWindow => Ok(CodeTerms::sliding_window(&windows)),
            Algorithm::SlidingCounter => window().map(CodeTerms::sliding_counter),
            Algorithm::Concurrency => {
                Err(Failure::Usage(anyhow!("permits are defined in a config or by a program")))
            }
            Algorithm::FairShares => Err(Failure::Usage(anyhow!("parts are defined in a config"))),
        }?;
        let terms = terms.on_change(self.on_change);
        Ok(if self.keyed { terms.keyed() } else { terms })
    }
}

fn word(defined: Defined) -> &'static str {
    match defined {
        Defined::New => "new",
        Defined::Changed => "changed",
        _ => "renewed",
    }
}

fn failure(name: &LimitName, error: DefineError) -> Failure {
    match error {
        DefineError::Redis(error) => error.into(),
        error => Failure::Undecided(anyhow!("limit {name}: {error}")),
    }
}
