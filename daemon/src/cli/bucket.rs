//! `topupd take`, `peek` and `reset`: one bucket, by script, with an exact answer.

use std::time::Duration;

use anyhow::anyhow;
use serde_json::json;
use tokio::time::sleep;
use topup_wire::{
    bucket::Operation,
    counts::{Count, Counts},
    limit::{Limit, Mode, Target, TopKeys},
    reply::{Settled, Verdict},
    scripts::{self, DeniedKeys},
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
    run_as(args.bucket.query.json, &args.bucket.query.connect, async {
        let location = BucketLocation::find(&args.bucket).await?;
        let began = Moment::now();
        let longest = args.wait.unwrap_or_default();
        loop {
            let paused = location.paused().await?;
            let settled = match paused {
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
                print_line(&location.describe(&settled, args.bucket.query.json));
                location.count(&settled, paused.is_some()).await;
                return Ok(if proceeds { Exit::Done } else { Exit::Denied });
            }
            sleep(wait.min(LONGEST_PAUSE)).await;
        }
    })
}

pub(super) fn peek(args: &Bucket) -> Exit {
    run_as(args.query.json, &args.query.connect, operate_once(args, Operation::Peek(1)))
}

pub(super) fn reset(args: &Bucket) -> Exit {
    run_as(args.query.json, &args.query.connect, operate_once(args, Operation::Reset))
}

async fn operate_once(bucket: &Bucket, operation: Operation) -> Result<Exit, Failure> {
    let location = BucketLocation::find(bucket).await?;
    let mut settled = location.settle(operation).await?;
    if let (Operation::Peek(_), Some(left)) = (operation, location.paused().await?) {
        (settled.verdict, settled.wait) = (Verdict::Denied, left.as_micros() as u64);
    }
    print_line(&location.describe(&settled, bucket.query.json));
    Ok(Exit::Done)
}

/// A bucket that the command line names.
pub(super) struct BucketLocation(report::BucketLocation);

// === impl BucketLocation ===

impl BucketLocation {
    pub(super) async fn find(bucket: &Bucket) -> Result<Self, Failure> {
        let key = bucket.key.as_deref();
        let (connection, limit) = open_limit(&bucket.query.connect, &bucket.limit, key).await?;
        Ok(Self(answered(report::BucketLocation::of(connection, limit, key)).await?))
    }

    /// Counts a take, as a worker does. `is_paused` tells whether a pause denied it. A take that is not counted is decided all
    /// the same.
    async fn count(&self, settled: &Settled, is_paused: bool) {
        let mut counts = Counts::default();
        let count = match (settled.verdict, self.mode()) {
            (Verdict::Allowed, _) | (_, Mode::Off) => Count::Allowed,
            (_, Mode::Shadow) => Count::WouldDeny,
            (_, Mode::Enforce) => Count::Denied,
        };
        counts.set(count, 1);
        // As a worker: a key with a plan counts for the plan.
        let limit = self.0.terms().map_or(&self.0.limit, |(limit, _)| limit);
        let _ = ask(scripts::count(&mut self.0.connection.clone(), &[(limit.name, counts)])).await;
        if let (Count::Denied | Count::WouldDeny, Some(key)) = (count, self.0.key()) {
            self.count_denied(limit, key, is_paused).await;
        }
    }

    /// Counts a denied take of `key` for the limit's most denied keys and for its penalty.
    async fn count_denied(&self, limit: &Limit, key: &str, is_paused: bool) {
        let (connection, told) = (&self.0.connection, limit.top_keys);
        let denied = DeniedKeys { keys: vec![(key.to_owned(), 1)], missing: 0 };
        if told != TopKeys::NONE {
            let _ = ask(scripts::add_denied(&mut connection.clone(), &limit.name, told, &denied)).await;
        }
        if let Some(penalty) = limit.penalty.filter(|_| !is_paused) {
            let _ = ask(scripts::block_denied(connection, &limit.name, penalty, &denied.keys, |_| {})).await;
        }
    }

    pub(super) async fn settle(&self, operation: Operation) -> Result<Settled, Failure> {
        answered(self.0.settle(operation)).await
    }

    /// Puts tokens into the bucket, or fills it.
    pub(super) async fn put_in(&self, tokens: Option<u64>) -> Result<Settled, Failure> {
        answered(self.0.put_in(tokens)).await
    }

    /// An error if the key has no bucket: it is exempt or denied.
    pub(super) fn has_bucket(&self) -> Result<(), Failure> {
        self.0.terms()?;
        Ok(())
    }

    /// The limit's mode for this key.
    pub(super) const fn mode(&self) -> Mode {
        self.0.mode
    }

    /// The answer as text or JSON.
    fn describe(&self, settled: &Settled, json: bool) -> String {
        let Settled { tokens, capacity, .. } = *settled;
        let (mode, target) = (self.mode(), self.0.target());
        let allowed = settled.verdict == Verdict::Allowed;
        let wait = report::retry_after(settled);
        if json {
            let answer = json!({
                "allowed": allowed || mode != Mode::Enforce, "would_deny": !allowed, "mode": mode.as_str(),
                "plan": target.map(|target| target.to_string()), "remaining": tokens, "capacity": capacity,
                "retry_after_ms": wait.map(|wait| wait.as_secs_f64() * 1e3),
            });
            return answer.to_string();
        }
        let verdict = match (allowed, mode) {
            (true, _) => "allowed",
            (false, Mode::Enforce) => "denied",
            (false, _) => "allowed in shadow, would be denied",
        };
        let mut text = match target {
            Some(Target::Exempt) => format!("{verdict}, the key is exempt"),
            Some(Target::Deny) => format!("{verdict}, the key is on the deny list"),
            Some(Target::Plan(plan)) => format!("{verdict}, {tokens} of {capacity} left, plan {plan}"),
            None => format!("{verdict}, {tokens} of {capacity} left"),
        };
        if allowed && mode == Mode::Off {
            text += ", the limit is off";
        }
        if let Some(wait) = wait {
            let wait = Duration::from_millis(wait.as_micros().div_ceil(1000) as u64);
            text += &format!(", retry after {}", humantime::format_duration(wait));
        }
        text
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
            | BucketError::HasNoBucket(..)
            | BucketError::HasPermits(_) => Self::Usage(error.into()),
            BucketError::Redis(error) => error.into(),
            BucketError::Unpublished(_) | BucketError::NewerSchema(_) | BucketError::Changed(_) => {
                Self::Undecided(error.into())
            }
        }
    }
}
