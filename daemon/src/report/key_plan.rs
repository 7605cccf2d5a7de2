//! The plan of a key: all that assigns one, and the limit whose terms apply.

use std::time::Duration;

use redis::RedisResult;
use tokio::time::sleep;
use topup_wire::{
    connection::{Cause, Connection},
    keyspace::{ShardKeys, shard_of},
    limit::{Limit, PlanSources, PlanSpan, Target},
    namespace::InNamespace,
    reply::PublishedLimit,
    scripts::{self, PlanMove},
};

/// Looks at most whether a worker has moved the tokens that it is moving, and the time between two of them.
const LOOKS: usize = 64;
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Where the tokens of a key are.
pub(crate) enum KeyPlan {
    /// In a bucket of these terms: those of the limit itself, or of the plan `target`.
    Bucket { terms: Box<Limit>, target: Option<Target> },
    /// Nowhere: all its takes are allowed.
    Exempt,
    /// Nowhere: all its takes are denied, until the assignment ends or changes.
    Denied { left: Option<u64> },
}

/// All that assigns `key` of `published` to a plan.
///
/// # Errors
/// If Redis does not tell.
pub(crate) async fn plan_sources<'a>(
    connection: &mut Connection,
    published: &'a PublishedLimit,
    key: &'a str,
) -> RedisResult<PlanSources<'a>> {
    let name = published.limit.name;
    let index = scripts::assignment_index(connection).await?;
    let shapes = [name, name.source()].map(|set| index.shapes.get(&set).copied());
    let assigned = scripts::assigned_outside(connection, &name, &shapes, key).await?;
    Ok(published.plan_sources(key, assigned))
}

// === impl KeyPlan ===

impl KeyPlan {
    /// The plan of `key` now. Moves its tokens if its plan has just changed, as a worker does.
    ///
    /// # Errors
    /// If Redis does not tell.
    pub(crate) async fn find(
        connection: &mut Connection,
        published: &PublishedLimit,
        key: &str,
    ) -> RedisResult<Self> {
        let sources = plan_sources(connection, published, key).await?;
        let now = scripts::now(connection).await?;
        let period = sources.period(now);
        let terms = terms_of(connection, published, period.target).await?;
        let spans = sources.history(now.saturating_sub(published.limit.plans_fill), now);
        if spans.len() > 1 && spans.last().is_some_and(|last| last.target == Ok(period.target)) {
            move_tokens(connection, published, key, now, &spans).await?;
        }
        Ok(match (period.target, terms) {
            (Some(Target::Exempt), _) => Self::Exempt,
            (Some(Target::Deny), _) => Self::Denied { left: period.until.map(|until| until - now) },
            (target, Some(terms)) => Self::Bucket { terms: Box::new(terms), target },
            // A plan that has just been removed leaves the limit's own terms.
            (_, None) => Self::Bucket { terms: Box::new(published.limit.clone()), target: None },
        })
    }
}

/// The terms of `target` as they are published; `None` without terms, and for a plan that is gone.
///
/// # Errors
/// If Redis does not tell.
pub(crate) async fn terms_of(
    connection: &mut Connection,
    published: &PublishedLimit,
    target: Option<Target>,
) -> RedisResult<Option<Limit>> {
    let own = &published.limit;
    let Some(target) = target else { return Ok(Some(own.clone())) };
    let Some(plan) = target.plan() else { return Ok(None) };
    let read = scripts::read_limit(connection, &own.name.plan(plan)).await?;
    Ok(read.map(|read| read.limit))
}

/// Moves the tokens of `key` over the changes of its plan.
async fn move_tokens(
    connection: &mut Connection,
    published: &PublishedLimit,
    key: &str,
    now: u64,
    spans: &[PlanSpan],
) -> RedisResult<()> {
    let mut known = Vec::new();
    for PlanSpan { from, target } in spans {
        match target {
            // A plan that is gone leaves no tokens.
            Ok(target) => {
                let terms = terms_of(connection, published, *target).await?;
                known.extend(terms.map(|terms| {
                    let keys =
                        ShardKeys::new(connection.namespace(), &terms.name, shard_of(key, terms.shards));
                    (*from, Ok((terms, keys)))
                }));
            }
            Err(lost) => known.push((*from, Err(*lost))),
        }
    }
    let spans: Vec<_> = known
        .iter()
        .map(|(from, bucket)| {
            (*from, bucket.as_ref().map(|(terms, keys)| (terms, keys)).map_err(|lost| *lost))
        })
        .collect();
    let change = PlanMove { limit: &published.limit, key, now, spans: &spans };
    for _ in 0..LOOKS {
        match scripts::move_tokens(connection, change).await {
            Ok(false) => sleep(LOOK_EVERY).await,
            // A user who may only read sees the bucket as it is.
            Err(error) if Cause::of(&error) == Cause::Rights => return Ok(()),
            result => return result.map(drop),
        }
    }
    Ok(())
}
