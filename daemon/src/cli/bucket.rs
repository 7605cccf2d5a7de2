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
    limit::{Limit, Mode},
    namespace::InNamespace,
    reply::{Settled, Verdict},
    scripts,
};

use super::{
    args::{Bucket, Take},
    exit::Exit,
    limit_name::{find, parse},
    output::print_line,
    redis::{Failure, ask, check_schema, connect, run_as},
};
use crate::clock::Moment;

/// The longest pause between two attempts of a take that waits. A change of the limit may end a long wait early.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn take(args: &Take) -> Exit {
    run_as(args.bucket.json, async {
        let location = BucketLocation::find(&args.bucket).await?;
        let began = Moment::now();
        let longest = args.wait.unwrap_or_default();
        loop {
            let settled = match location.paused().await? {
                None => location.operate(Operation::Take(args.count)).await?,
                Some(left) => Settled {
                    verdict: Verdict::Denied,
                    wait: left.as_micros() as u64,
                    ..location.operate(Operation::Peek(1)).await?
                },
            };
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
    run_as(args.json, operate_once(args, Operation::Peek(1)))
}

pub(super) fn reset(args: &Bucket) -> Exit {
    run_as(args.json, operate_once(args, Operation::Reset))
}

async fn operate_once(bucket: &Bucket, operation: Operation) -> Result<Exit, Failure> {
    let location = BucketLocation::find(bucket).await?;
    let mut settled = location.operate(operation).await?;
    if let (Operation::Peek(_), Some(left)) = (operation, location.paused().await?) {
        (settled.verdict, settled.wait) = (Verdict::Denied, left.as_micros() as u64);
    }
    print_line(&describe(&settled, location.mode, bucket.json));
    Ok(Exit::Done)
}

/// The limit record, shard and key of a bucket.
pub(super) struct BucketLocation {
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
    pub(super) async fn find(bucket: &Bucket) -> Result<Self, Failure> {
        let name = parse(&bucket.limit, bucket.key.as_deref())?;
        let mut connection = connect(&bucket.connect)?;
        check_schema(&mut connection).await?;
        let limit = find(&mut connection, &name, bucket.key.as_deref()).await?;
        let namespace = connection.namespace();
        let member = match (&bucket.key, limit.keyed) {
            (Some(key), _) => key.clone(),
            (None, false) => String::new(),
            (None, true) => {
                return Err(Failure::Usage(anyhow!("limit {name} is keyed: name a key with --key")));
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

    pub(super) async fn operate(&self, operation: Operation) -> Result<Settled, Failure> {
        let mut connection = self.connection.clone();
        let (algorithm, keys, member) = (self.limit.algorithm, &self.keys, &self.member);
        if self.mode == Mode::Off && operation != Operation::Reset {
            // Like a worker, without a question to Redis.
            return Ok(Settled::free(self.limit.terms.capacity, operation));
        }
        if operation == Operation::Reset {
            return self.put_in(None).await;
        }
        let settle = scripts::settle(&mut connection, algorithm, keys, member, operation, false, 0);
        self.checked(ask(settle).await?)
    }

    /// Puts tokens into the bucket, or fills it.
    pub(super) async fn put_in(&self, tokens: Option<u64>) -> Result<Settled, Failure> {
        let (mut connection, in_hand_for) = (self.connection.clone(), self.limit.in_hand_for());
        let request = scripts::PutIn { tokens, spare: 0, full_at: None, in_hand_for };
        let put_in =
            scripts::put_in(&mut connection, self.limit.algorithm, &self.keys, &self.member, request);
        self.checked(ask(put_in).await?)
    }

    /// The limit's mode for this key.
    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    /// Time until the pause of the bucket ends, if it is paused and the limit enforced.
    async fn paused(&self) -> Result<Option<Duration>, Failure> {
        if self.mode != Mode::Enforce {
            return Ok(None);
        }
        let mut connection = self.connection.clone();
        // A user of an earlier version may not read pauses.
        let Ok(all) = ask(scripts::paused(&mut connection)).await else { return Ok(None) };
        let is_this = |pause: &&scripts::Pause| {
            pause.limit == self.limit.name && pause.key.as_ref().is_none_or(|key| *key == self.member)
        };
        let Some(until) = all.pauses.iter().filter(is_this).map(|pause| pause.until).max() else {
            return Ok(None);
        };
        let now = ask(scripts::now(&mut connection)).await?;
        Ok((until > now).then(|| Duration::from_micros(until - now)))
    }

    fn checked(&self, settled: Settled) -> Result<Settled, Failure> {
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
