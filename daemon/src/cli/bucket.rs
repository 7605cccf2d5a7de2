//! `topupd take`, `peek` and `reset`: one bucket, by script, each answer exact.

use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::json;
use tokio::time::{sleep, timeout};
use topup_wire::{
    bucket::Operation,
    connection::{Connection, connect_lazily},
    keyspace::{ShardKeys, shard_of},
    limit::{Key, Limit, LimitName, Mode},
    reply::{Settled, Verdict},
    scripts,
};

use super::{
    Bucket, Connect, Exit, Peek, Reset, Take,
    exit::{answer, complain, note},
};
use crate::{app::default_config, clock::Moment, source::Source};

/// A person waits for this at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
pub(super) enum Failure {
    Usage(anyhow::Error),
    Config(String),
    Undecided(anyhow::Error),
}

pub(super) fn take(args: &Take) -> Exit {
    ended(on_runtime(async {
        let place = Place::find(&args.bucket).await?;
        let begun = Moment::now();
        let longest = args.wait.unwrap_or_default();
        loop {
            let settled = place.operate(Operation::Take(args.count)).await?;
            let wait = Duration::from_micros(settled.wait);
            let proceeds = settled.verdict == Verdict::Allowed || place.mode != Mode::Enforce;
            if proceeds || begun.elapsed() + wait > longest {
                answer(&told(&settled, place.mode, args.bucket.json));
                return Ok(if proceeds { Exit::Done } else { Exit::Denied });
            }
            // A change of the limit may end a long denial early.
            sleep(wait.min(Duration::from_secs(1))).await;
        }
    }))
}

pub(super) fn peek(args: &Peek) -> Exit {
    ended(on_runtime(async {
        let place = Place::find(&args.bucket).await?;
        let settled = place.operate(Operation::Peek(1)).await?;
        answer(&told(&settled, place.mode, args.bucket.json));
        Ok(Exit::Done)
    }))
}

pub(super) fn reset(args: &Reset) -> Exit {
    ended(on_runtime(async {
        let place = Place::find(&args.bucket).await?;
        let settled = place.operate(Operation::Reset).await?;
        answer(&told(&settled, place.mode, args.bucket.json));
        Ok(Exit::Done)
    }))
}

/// Where a bucket is.
struct Place {
    connection: Connection,
    limit: Limit,
    /// What the limit does to this key.
    mode: Mode,
    keys: ShardKeys,
    member: String,
}

// === impl Place ===

impl Place {
    async fn find(bucket: &Bucket) -> Result<Self, Failure> {
        let name: LimitName =
            bucket.limit.parse().map_err(|error| Failure::Usage(anyhow::Error::new(error)))?;
        if let Some(key) = &bucket.key {
            Key::new(key).map_err(|error| Failure::Usage(error.into()))?;
        }
        let mut connection = connect(&bucket.connect)?;
        let limit = asked(scripts::read_limit(&mut connection, &name)).await?;
        let unknown = || {
            anyhow!("no limit {name} is published: is topupd running, and is [limit.{name}] in its config?")
        };
        let limit = limit.ok_or_else(|| Failure::Undecided(unknown()))?.limit;
        let member = match (&bucket.key, limit.keyed) {
            (Some(key), true) => key.clone(),
            (None, false) => String::new(),
            (None, true) => {
                return Err(Failure::Usage(anyhow!("limit {name} is keyed: say whose bucket with --key")));
            }
            (Some(_), false) => {
                return Err(Failure::Usage(anyhow!("limit {name} has one bucket for all: leave --key out")));
            }
        };
        let shard = if limit.keyed { shard_of(&member, limit.shards) } else { 0 };
        let mode = limit.rollout.mode_for(limit.keyed.then_some(&*member));
        Ok(Self { connection, keys: ShardKeys::new(&name, shard), mode, limit, member })
    }

    async fn operate(&self, operation: Operation) -> Result<Settled, Failure> {
        let mut connection = self.connection.clone();
        let (algorithm, keys, member) = (self.limit.algorithm, &self.keys, &self.member);
        if self.mode == Mode::Off && operation != Operation::Reset {
            // As every worker has it: nothing is asked of Redis.
            return Ok(Settled::free(self.limit.terms.capacity, operation));
        }
        let tokens = if let Operation::Refund(count) = operation { Some(count) } else { None };
        let puts_in = tokens.is_some() || operation == Operation::Reset;
        let settled = if puts_in {
            let in_hand_for = self.limit.in_hand_for();
            let request = scripts::PutIn { tokens, full_at: None, or_lost: false, in_hand_for };
            asked(scripts::put_in(&mut connection, algorithm, keys, member, request)).await?
        } else {
            asked(scripts::settle(&mut connection, algorithm, keys, member, operation, false, 0)).await?
        };
        match settled.verdict {
            Verdict::Allowed | Verdict::Denied => Ok(settled),
            Verdict::Unknown => {
                Err(Failure::Undecided(anyhow!("limit {} was changed just now: try again", self.limit.name)))
            }
            Verdict::ExceedsCapacity => {
                let (name, capacity) = (&self.limit.name, settled.capacity);
                Err(Failure::Usage(anyhow!(
                    "limit {name} holds at most {capacity} tokens: take no more than that"
                )))
            }
        }
    }
}

/// A connection to the Redis the command line, environment or config names.
pub(super) fn connect(connect: &Connect) -> Result<Connection, Failure> {
    let file = connect.config.config.clone();
    let source = Source { file: file.clone().unwrap_or_else(default_config), redis: connect.redis.clone() };
    let wrong = |error: anyhow::Error| Failure::Config(format!("topupd: {error:#}"));
    let url = match source.given_redis_url().map_err(wrong)? {
        // The daemon's config is then not needed, and whoever asks may not be allowed to read it.
        Some(given) if file.is_none() => given,
        given => match source.load() {
            Ok(config) => given.unwrap_or(config.redis_url),
            Err(problems) if file.is_some() || source.file.exists() => {
                return Err(Failure::Config(problems.to_string()));
            }
            Err(_) => given.unwrap_or_default(),
        },
    };
    connect_lazily(url.as_str()).context("the Redis URL").map_err(wrong)
}

/// The answer of Redis, waited for as long as a person would.
pub(super) async fn asked<T>(request: impl Future<Output = redis::RedisResult<T>>) -> Result<T, Failure> {
    match timeout(PATIENCE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Failure::Undecided(anyhow::Error::new(error).context("Redis"))),
        Err(_) => Err(Failure::Undecided(anyhow!("Redis did not answer within {PATIENCE:?}"))),
    }
}

pub(super) fn on_runtime(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::Undecided(error.into()))?.block_on(command)
}

pub(super) fn ended(result: Result<Exit, Failure>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(Failure::Usage(error)) => {
            complain(&error);
            Exit::Usage
        }
        Err(Failure::Config(problems)) => {
            note(&problems);
            Exit::Config
        }
        Err(Failure::Undecided(error)) => {
            complain(&error);
            Exit::Undecided
        }
    }
}

fn told(settled: &Settled, mode: Mode, json: bool) -> String {
    let Settled { tokens, capacity, wait, .. } = *settled;
    let allowed = settled.verdict == Verdict::Allowed;
    if json {
        let retry_after_ms = (!allowed).then(|| wait as f64 / 1e3);
        let answer = json!({
            "allowed": allowed || mode != Mode::Enforce, "would_deny": !allowed, "mode": mode.as_str(),
            "remaining": tokens, "capacity": capacity, "retry_after_ms": retry_after_ms,
        });
        return answer.to_string();
    }
    if allowed {
        let off = if mode == Mode::Off { ", the limit is off" } else { "" };
        format!("allowed, {tokens} of {capacity} left{off}")
    } else {
        let wait = humantime::format_duration(Duration::from_millis(wait.div_ceil(1000)));
        let told = if mode == Mode::Enforce { "denied" } else { "allowed in shadow, would be denied" };
        format!("{told}, {tokens} of {capacity} left, retry after {wait}")
    }
}
