//! One round of publishing, from its kind to its result.

use std::collections::BTreeSet;

use redis::RedisResult;
use topup_wire::{connection::Connection, limit::LimitName};

use crate::{
    publish::{
        DesiredLimit, FrozenShards, LoadedConfig, Plan, PublishOptions, PublishOutcome, claim, publish,
        release,
    },
    refill::{freezes::AppliesFrom, in_flight::InFlight},
};

/// One round of publishing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Round {
    /// All limits; those that the config has dropped are removed.
    Everything(AppliesFrom),
    /// The limits with a schedule or quota, at a boundary.
    Boundary,
    /// The limits whose frozen change is due.
    AfterFreeze(AppliesFrom),
    /// Freezes the limits that change at this boundary, in µs of Redis `TIME`.
    FreezeAhead(u64),
    /// Decides anew on the limits: claims or live daemons have changed.
    Review,
}

/// The result of a round.
pub(super) enum RoundOutcome {
    Published(PublishOutcome),
    /// Limits were claimed before they were published.
    Claimed(Plan, PublishOutcome),
    /// A decision, and whether it asks for publishing.
    Reviewed(Plan, bool),
}

/// A round in flight.
pub(super) struct Running {
    pub(super) round: Round,
    /// The limits of the round.
    pub(super) names: BTreeSet<LimitName>,
    /// The freezes that all workers knew of when the round began.
    pub(super) known: FrozenShards,
    pub(super) task: InFlight<RedisResult<RoundOutcome>>,
}

/// A round that has ended.
pub(in crate::refill) struct EndedRound {
    /// Whether limits were published.
    pub(in crate::refill) published: bool,
    /// Limits whose terms have changed. Their buckets at rest still have the old ones.
    pub(in crate::refill) changed: BTreeSet<LimitName>,
}

/// Claims the limits of `config`, publishes those that it holds, and removes those that nobody has any more.
pub(super) async fn claim_and_publish(
    connection: &Connection,
    config: &LoadedConfig,
    mut desired: Vec<DesiredLimit>,
    options: PublishOptions<'_>,
) -> RedisResult<RoundOutcome> {
    let plan = claim(connection, config).await?;
    desired.retain(|desired| plan.publish.contains(&desired.limit.name.live()));
    let outcome = publish(connection, &desired, PublishOptions { plan: Some(&plan), ..options }).await?;
    if !plan.remove.is_empty() {
        release(connection, config, &plan).await?;
    }
    Ok(RoundOutcome::Claimed(plan, outcome))
}
