//! `topupd take`, `peek` and `reset`: one bucket, by script, with an exact answer.

use std::time::Duration;

use anyhow::anyhow;
use serde_json::json;
use tokio::time::sleep;
use topup_wire::{
    bucket::Operation,
    connection::Connection,
    counts::{Count, Counts},
    keyspace::{ShardKeys, shard_of},
    limit::{Key, Limit, LimitName, Mode},
    namespace::InNamespace,
    reply::{Settled, Verdict},
    scripts,
};

use super::{
    args::{Bucket, Take},
    exit::Exit,
    output::print_line,
    redis::{Failure, ask, check_schema, connect, run},
};
use crate::clock::Moment;

/// The longest pause between two attempts of a take that waits. A change of the limit may end a long wait early.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn take(args: &Take) -> Exit {
    run(async {
        let location = BucketLocation::find(&args.bucket).await?;
        let began = Moment::now();
        let longest = args.wait.unwrap_or_default();
        loop {
            let settled = location.operate(Operation::Take(args.count)).await?;
            let wait = Duration::from_micros(settled.wait);
            let proceeds = settled.verdict == Verdict::Allowed || location.mode != Mode::Enforce;
            if proceeds || began.elapsed() + wait > longest {
                print_line(&describe(&settled, location.mode, args.bucket.json));
                location.count(&settled).await;
                return Ok(if proceeds { Exit::Done } else { Exit::Denied });
            }
            sleep(wait.min(LONGEST_PAUSE)).await;
        }
    })
}

pub(super) fn peek(args: &Bucket) -> Exit {
    run(operate_once(args, Operation::Peek(1)))
}

pub(super) fn reset(args: &Bucket) -> Exit {
    run(operate_once(args, Operation::Reset))
}

async fn operate_once(bucket: &Bucket, operation: Operation) -> Result<Exit, Failure> {
    let location = BucketLocation::find(bucket).await?;
    let settled = location.operate(operation).await?;
    print_line(&describe(&settled, location.mode, bucket.json));
    Ok(Exit::Done)
}

/// The limit record, shard and key of a bucket.
struct BucketLocation {
    connection: Connection,
    limit: Limit,
    /// The limit's mode for this key.
    mode: Mode,
    keys: ShardKeys,
    /// The key; empty for an unkeyed limit.
    member: String,
}

// === impl BucketLocation ===

impl BucketLocation {
    async fn find(bucket: &Bucket) -> Result<Self, Failure> {
        let name: LimitName =
            bucket.limit.parse().map_err(|error| Failure::Usage(anyhow::Error::new(error)))?;
        if let Some(key) = &bucket.key {
            Key::new(key).map_err(|error| Failure::Usage(error.into()))?;
        }
        let mut connection = connect(&bucket.connect)?;
        check_schema(&mut connection).await?;
        let published = ask(scripts::read_limit(&mut connection, &name)).await?;
        let namespace = connection.namespace();
        let place =
            if namespace.is_default() { String::new() } else { format!(" in the namespace {namespace}") };
        let unknown = || {
            anyhow!(
                "no limit {name} is published{place}: is topupd running, and is [limit.{name}] in its config?"
            )
        };
        let limit = published.ok_or_else(|| Failure::Undecided(unknown()))?.limit;
        let member = match (&bucket.key, limit.keyed) {
            (Some(key), true) => key.clone(),
            (None, false) => String::new(),
            (None, true) => {
                return Err(Failure::Usage(anyhow!("limit {name} is keyed: name a key with --key")));
            }
            (Some(_), false) => {
                return Err(Failure::Usage(anyhow!("limit {name} has one bucket for all: leave --key out")));
            }
        };
        let shard = if limit.keyed { shard_of(&member, limit.shards) } else { 0 };
        let mode = limit.rollout.mode_for(limit.keyed.then_some(&*member));
        let keys = ShardKeys::new(namespace, &name, shard);
        Ok(Self { connection, keys, mode, limit, member })
    }

    /// Counts a take, as a worker does. A take that is not counted is decided all the same.
    async fn count(&self, settled: &Settled) {
        let mut counts = Counts::default();
        let count = match (settled.verdict, self.mode) {
            (Verdict::Allowed, _) | (_, Mode::Off) => Count::Allowed,
            (_, Mode::Shadow) => Count::WouldDeny,
            (_, Mode::Enforce) => Count::Denied,
        };
        counts.set(count, 1);
        let _ = ask(scripts::count(&mut self.connection.clone(), &[(self.limit.name, counts)])).await;
    }

    async fn operate(&self, operation: Operation) -> Result<Settled, Failure> {
        let mut connection = self.connection.clone();
        let (algorithm, keys, member) = (self.limit.algorithm, &self.keys, &self.member);
        if self.mode == Mode::Off && operation != Operation::Reset {
            // Like a worker, without a question to Redis.
            return Ok(Settled::free(self.limit.terms.capacity, operation));
        }
        let settled = if operation == Operation::Reset {
            let in_hand_for = self.limit.in_hand_for();
            let request = scripts::PutIn { tokens: None, spare: 0, full_at: None, in_hand_for };
            ask(scripts::put_in(&mut connection, algorithm, keys, member, request)).await?
        } else {
            ask(scripts::settle(&mut connection, algorithm, keys, member, operation, false, 0)).await?
        };
        let name = &self.limit.name;
        match settled.verdict {
            Verdict::Allowed | Verdict::Denied => Ok(settled),
            Verdict::Unknown => {
                Err(Failure::Undecided(anyhow!("limit {name} has changed just now: try again")))
            }
            Verdict::ExceedsCapacity => Err(Failure::Usage(anyhow!(
                "limit {name} holds at most {} tokens: take no more than that",
                settled.capacity
            ))),
        }
    }
}

/// The answer as text or JSON.
fn describe(settled: &Settled, mode: Mode, json: bool) -> String {
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
        let verdict = if mode == Mode::Enforce { "denied" } else { "allowed in shadow, would be denied" };
        format!("{verdict}, {tokens} of {capacity} left, retry after {wait}")
    }
}
