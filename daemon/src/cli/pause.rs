//! `topupd pause` and `topupd resume`: hold up all workers for a while.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use topup_wire::{
    limit::Limit,
    reply::PublishedLimit,
    scripts::{self, MOST_PAUSES, PauseReply},
};

use super::{
    args::{Query, parse_duration},
    exit::Exit,
    limit_name::open_limit,
    output::print_answer,
    redis::{Failure, ask, run_as},
    table::printable,
};
use crate::text::length;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd pause api --for 30s
  topupd pause crawl --key example.org --for 10min")]
pub(super) struct Pause {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The key of the bucket; without it, all buckets of a keyed limit are paused
    #[arg(long)]
    key: Option<String>,
    /// The length of the pause, at most a day: 500ms, 30s, 10min
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    time: Duration,
    #[command(flatten)]
    query: Query,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd resume api
  topupd resume crawl --key example.org
  topupd resume crawl --all")]
pub(super) struct Resume {
    /// The limit, as in [limit.NAME] of the config
    limit: String,
    /// The key whose pause ends; without it, the pause of the limit ends
    #[arg(long)]
    key: Option<String>,
    /// End the pauses of all keys, too
    #[arg(long, conflicts_with = "key")]
    all: bool,
    #[command(flatten)]
    query: Query,
}

pub(super) fn pause(args: &Pause) -> Exit {
    run_as(args.query.json, &args.query.connect, async {
        let key = args.key.as_deref();
        let (mut connection, PublishedLimit { limit, .. }) =
            open_limit(&args.query.connect, &args.limit, key).await?;
        if args.time.is_zero() {
            return Err(Failure::Usage(anyhow!("a pause takes time: `topupd resume` ends one")));
        }
        let PauseReply { left, changed } =
            ask(scripts::pause(&mut connection, &limit.name, key, args.time)).await?;
        let left = left.ok_or_else(|| {
            Failure::Undecided(anyhow!(
                "{MOST_PAUSES} limits and keys are paused already, which is the most: see `topupd status`"
            ))
        })?;
        let text = match (changed, left < args.time) {
            (true, false) => format!("{} paused for {}", named(&limit, key), length(left)),
            (true, true) => {
                format!("{} paused for {}, the longest there is", named(&limit, key), length(left))
            }
            (false, _) => format!("{} is paused for {} already", named(&limit, key), length(left)),
        };
        tell(args.query.json, &limit, key, left, changed, &text);
        Ok(Exit::Done)
    })
}

pub(super) fn resume(args: &Resume) -> Exit {
    run_as(args.query.json, &args.query.connect, async {
        let key = args.key.as_deref();
        let (mut connection, PublishedLimit { limit, .. }) =
            open_limit(&args.query.connect, &args.limit, key).await?;
        let reply = match args.all {
            true => ask(scripts::resume_all(&mut connection, &limit.name)).await?,
            false => ask(scripts::resume(&mut connection, &limit.name, key)).await?,
        };
        let text = match reply.changed {
            true => format!("{} goes on", named(&limit, key)),
            false => format!("{} was not paused", named(&limit, key)),
        };
        tell(args.query.json, &limit, key, Duration::ZERO, reply.changed, &text);
        Ok(Exit::Done)
    })
}

fn tell(json: bool, limit: &Limit, key: Option<&str>, left: Duration, changed: bool, text: &str) {
    let left_ms = left.as_secs_f64() * 1e3;
    let answer =
        json!({ "limit": limit.name.as_str(), "key": key, "paused_ms": left_ms, "changed": changed });
    print_answer(json, &answer, text);
}

fn named(limit: &Limit, key: Option<&str>) -> String {
    match key {
        Some(key) => format!("{} key {}", limit.name, printable(key)),
        None if limit.keyed => format!("{}, all keys,", limit.name),
        None => limit.name.to_string(),
    }
}
