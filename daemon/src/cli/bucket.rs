//! `topupd take`, `peek` and `reset`: one bucket, by script, with an exact answer.

use std::time::Duration;

use anyhow::anyhow;
use serde_json::json;
use tokio::time::sleep;
use topup_wire::{
    bucket::Operation,
    counts::{Count, Counts},
    limit::Mode,
    reply::{Settled, Verdict},
    scripts,
};

use super::{
    args::{Bucket, Take},
    exit::Exit,
    limit_name::open_limit,
    output::print_line,
    redis::{Failure, ask, run_as},
};
use crate::{
    clock::Moment,
    report::{self, BucketError},
};

/// The longest pause between two attempts of a take that waits. A change of the limit may end a long wait early.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn take(args: &Take) -> Exit {
    run_as(args.bucket.json, async {
        let location = BucketLocation::find(&args.bucket).await?;
        let began = Moment::now();
        let longest = args.wait.unwrap_or_default();
        loop {
            let settled = match location.paused().await? {
                None => location.settle(Operation::Take(args.count)).await?,
                Some(left) => Settled {
                    verdict: Verdict::Denied,
                    wait: left.as_micros() as u64,
                    ..location.settle(Operation::Peek(1)).await?
                },
            };
            let wait = Duration::from_micros(settled.wait);
            let proceeds = settled.verdict == Verdict::Allowed || location.mode() != Mode::Enforce;
            if proceeds || began.elapsed() + wait > longest {
                print_line(&describe(&settled, location.mode(), args.bucket.json));
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
    let mut settled = location.settle(operation).await?;
    if let (Operation::Peek(_), Some(left)) = (operation, location.paused().await?) {
        (settled.verdict, settled.wait) = (Verdict::Denied, left.as_micros() as u64);
    }
    print_line(&describe(&settled, location.mode(), bucket.json));
    Ok(Exit::Done)
}

/// A bucket that the command line names.
pub(super) struct BucketLocation(report::BucketLocation);

// === impl BucketLocation ===

impl BucketLocation {
    pub(super) async fn find(bucket: &Bucket) -> Result<Self, Failure> {
        let key = bucket.key.as_deref();
        let (connection, limit) = open_limit(&bucket.connect, &bucket.limit, key).await?;
        Ok(Self(report::BucketLocation::of(connection, limit, key)?))
    }

    /// Counts a take, as a worker does. A take that is not counted is decided all the same.
    async fn count(&self, settled: &Settled) {
        let mut counts = Counts::default();
        let count = match (settled.verdict, self.mode()) {
            (Verdict::Allowed, _) | (_, Mode::Off) => Count::Allowed,
            (_, Mode::Shadow) => Count::WouldDeny,
            (_, Mode::Enforce) => Count::Denied,
        };
        counts.set(count, 1);
        let counts = [(self.0.limit.name, counts)];
        let _ = ask(scripts::count(&mut self.0.connection.clone(), &counts)).await;
    }

    pub(super) async fn settle(&self, operation: Operation) -> Result<Settled, Failure> {
        answered(self.0.settle(operation)).await
    }

    /// Puts tokens into the bucket, or fills it.
    pub(super) async fn put_in(&self, tokens: Option<u64>) -> Result<Settled, Failure> {
        answered(self.0.put_in(tokens)).await
    }

    /// The limit's mode for this key.
    pub(super) const fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Time until the pause of the bucket ends, if it is paused and the limit enforced.
    async fn paused(&self) -> Result<Option<Duration>, Failure> {
        answered(self.0.paused()).await
    }
}

async fn answered<T>(request: impl Future<Output = Result<T, BucketError>>) -> Result<T, Failure> {
    Ok(ask(async { Ok(request.await) }).await??)
}

// === impl Failure ===

impl From<BucketError> for Failure {
    fn from(error: BucketError) -> Self {
        match error {
            BucketError::NeedsKey(_) => Self::Usage(anyhow!("{error}: name a key with --key")),
            BucketError::HasNoKeys(_) => Self::Usage(anyhow!("{error}: leave --key out")),
            BucketError::Name(_)
            | BucketError::Key(_)
            | BucketError::ExceedsCapacity(..)
            | BucketError::HasPermits(_) => Self::Usage(error.into()),
            BucketError::Redis(error) => Self::Undecided(anyhow::Error::new(error).context("Redis")),
            BucketError::Unpublished(_) | BucketError::NewerSchema(_) | BucketError::Changed(_) => {
                Self::Undecided(error.into())
            }
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
