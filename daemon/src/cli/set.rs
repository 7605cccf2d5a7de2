//! `topupd set` and `topupd drain`: set the tokens of one bucket.
//!
//! The tokens that are too many are taken, and those that are missing are put back: each in one step, as a worker does it.

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use topup_wire::{bucket::Operation, limit::Mode, reply::Verdict};

use super::{
    args::Bucket,
    bucket::BucketLocation,
    exit::Exit,
    output::print_answer,
    redis::{Failure, run_as},
};

/// Attempts at most: other takes may come between a look and a step.
const MOST_ATTEMPTS: u32 = 5;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd set api --tokens 100
  topupd set user --key alice --tokens 5")]
pub(super) struct Set {
    #[command(flatten)]
    bucket: Bucket,
    /// The number of tokens: 0 to the capacity
    #[arg(long, value_name = "N")]
    tokens: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  topupd drain api
  topupd drain user --key alice")]
pub(super) struct Drain {
    #[command(flatten)]
    bucket: Bucket,
}

pub(super) fn set(args: &Set) -> Exit {
    run_as(args.bucket.query.json, &args.bucket.query.connect, to(&args.bucket, args.tokens))
}

pub(super) fn drain(args: &Drain) -> Exit {
    run_as(args.bucket.query.json, &args.bucket.query.connect, to(&args.bucket, 0))
}

/// Brings the bucket to `wanted` tokens. Traffic beside it goes on, and moves them from there.
async fn to(bucket: &Bucket, wanted: u64) -> Result<Exit, Failure> {
    let location = BucketLocation::find(bucket).await?;
    if location.mode() == Mode::Off {
        return Err(Failure::Usage(anyhow!("limit {} is off: its buckets hold nothing", bucket.limit)));
    }
    location.has_bucket()?;
    let before = location.settle(Operation::Peek(1)).await?;
    if wanted > before.capacity {
        return Err(Failure::Usage(anyhow!(
            "the bucket of limit {} holds at most {} tokens: name no more than that",
            bucket.limit,
            before.capacity
        )));
    }
    let mut now = before;
    for _ in 0..MOST_ATTEMPTS {
        let (surplus, missing) = (now.tokens.saturating_sub(wanted), wanted.saturating_sub(now.tokens));
        let settled = match (surplus, missing) {
            (0, 0) => break,
            (0, missing) => location.put_in(Some(missing)).await?,
            (surplus, _) => location.settle(Operation::Take(surplus)).await?,
        };
        now = settled;
        // Somebody has taken meanwhile: there are fewer to take.
        if settled.verdict == Verdict::Allowed {
            break;
        }
    }
    let answer = json!({
        "limit": bucket.limit, "key": bucket.key, "before": before.tokens, "remaining": now.tokens,
        "capacity": now.capacity,
    });
    let text = format!("{} of {} left, {} before", now.tokens, now.capacity, before.tokens);
    print_answer(bucket.query.json, &answer, &text);
    Ok(Exit::Done)
}
