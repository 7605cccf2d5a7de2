//! The desired limits: those of a config, as they are to be published at an instant.

use topup_wire::limit::{
    Algorithm, Holds, Lease, Limit, LimitName, Parts, Percent, Plans, Rollout, Schedule, ScheduledChange,
    Supply, Terms, TopKeys,
};

use crate::config::{Candidate, Config, LimitConfig, SupplyConfig};

/// A limit to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredLimit {
    /// The content of its record.
    pub limit: Limit,
    /// The instant of the schedule from which its terms apply, in µs of Redis `TIME`; `None` for the instant of
    /// publication.
    pub since: Option<u64>,
}

/// The limits of `config` that `which` selects, with their terms at `now` (µs of Redis `TIME`).
pub fn desired_limits(config: &Config, now: u64, which: impl Fn(&LimitConfig) -> bool) -> Vec<DesiredLimit> {
    let selected = config.limits.values().filter(|limit| which(limit));
    selected.flat_map(|limit| with_trials(config, limit, now)).collect()
}

/// The next instant after `now` at which a schedule or quota of `config` changes any terms, in µs of Redis `TIME`.
pub fn next_boundary(config: &Config, now: u64) -> Option<u64> {
    config.limits.values().filter_map(|limit| limit.effective_at(now).until).min()
}

/// The next instant after `now` at which a schedule of `config` may change the capacity or rate of a token bucket.
pub fn next_freeze(config: &Config, now: u64) -> Option<u64> {
    let freezing = config.limits.values().filter(|limit| needs_freeze(limit));
    freezing.filter_map(|limit| limit.effective_at(now).until).min()
}

/// Whether workers must be told ahead when the schedule of `limit` changes its terms.
pub fn needs_freeze(limit: &LimitConfig) -> bool {
    let has_rate = matches!(limit.supply, SupplyConfig::Rate(_));
    has_rate && limit.algorithm == Algorithm::TokenBucket && !limit.schedule.is_empty()
}

/// Whether `limit` has a schedule or quota.
pub fn has_calendar(limit: &LimitConfig) -> bool {
    limit.calendars().next().is_some()
}

/// A limit, after the limits that it tries and its plans. In this order, a worker that reads of another in the limit's
/// record finds the other's record, too.
fn with_trials(config: &Config, limit: &LimitConfig, now: u64) -> Vec<DesiredLimit> {
    let (effective, ahead) = (limit.effective_at(now), limit.changes_after(now));
    let own = Limit {
        name: limit.name,
        keyed: limit.keyed,
        algorithm: limit.algorithm,
        terms: effective.terms,
        catch_up: limit.catch_up,
        on_change: limit.on_change,
        tick: config.tick,
        shards: limit.shards,
        lease: limit.lease,
        rollout: limit.rollout,
        candidate: limit.candidate.is_some(),
        on_outage: limit.on_outage,
        compared: limit.compared,
        schedule: schedule_of(limit.algorithm, limit.catch_up, effective.terms, &ahead, |terms| terms),
        top_keys: limit.top_keys,
        plans: limit.plans(),
        plans_fill: 0,
        penalty: limit.penalty,
        holds: limit.holds,
        parts: limit.parts.clone(),
    };
    let without_trials = Limit {
        rollout: Rollout::default(),
        on_outage: None,
        candidate: false,
        compared: Percent::NONE,
        top_keys: TopKeys::NONE,
        plans: Plans::default(),
        plans_fill: 0,
        penalty: None,
        holds: Holds::default(),
        parts: Parts::default(),
        ..own.clone()
    };
    // The same limit with other terms.
    let beside = |name: LimitName, other: &Candidate, limit: &Limit| {
        let terms = other.terms(own.terms);
        // A lease is not larger than a smaller bucket.
        let smaller = |lease: Lease| Lease::new(lease.max().min(terms.capacity.get()), lease.ttl()).ok();
        Limit {
            name,
            terms,
            schedule: schedule_of(own.algorithm, own.catch_up, terms, &ahead, |later| other.terms(later)),
            lease: own.lease.and_then(smaller),
            ..limit.clone()
        }
    };
    let candidate = limit.candidate.as_ref();
    let candidate = candidate.map(|candidate| beside(own.name.candidate(), candidate, &without_trials));
    // A plan has the mode, outage policy, penalty and holds of its limit.
    let of_plans = Limit {
        rollout: own.rollout,
        on_outage: own.on_outage,
        top_keys: own.top_keys,
        penalty: own.penalty,
        holds: own.holds,
        ..without_trials.clone()
    };
    let plans: Vec<Limit> =
        limit.plans.iter().map(|(plan, terms)| beside(own.name.plan(*plan), terms, &of_plans)).collect();
    let lazy = (own.compared > Percent::NONE).then(|| Limit {
        name: own.name.lazy(),
        algorithm: Algorithm::LazyTokenBucket,
        catch_up: true,
        schedule: schedule_of(Algorithm::LazyTokenBucket, true, effective.terms, &ahead, |terms| terms),
        lease: None,
        ..without_trials
    });
    let fills = plans.iter().chain([&own]).map(Limit::fill_time).max().unwrap_or(0);
    let own = Limit { plans_fill: if own.plans.is_empty() { 0 } else { fills }, ..own };
    let limits = [candidate, lazy].into_iter().flatten().chain(plans).chain([own]);
    limits.map(|limit| DesiredLimit { limit, since: effective.since }).collect()
}

/// The changes `ahead` of a limit with `terms`, where scripts can follow them without a daemon. Without catch-up, only a
/// daemon brings tokens, and parts are divided anew by a daemon.
fn schedule_of(
    algorithm: Algorithm,
    catch_up: bool,
    mut terms: Terms,
    ahead: &[(u64, Terms)],
    of: impl Fn(Terms) -> Terms,
) -> Schedule {
    if algorithm == Algorithm::TokenBucket && !catch_up || algorithm.has_parts() {
        return Schedule::NONE;
    }
    let changes = ahead.iter().filter_map(|(at, later)| {
        let later = of(*later);
        let Supply::Rate(rate) = later.supply else { return None };
        let changes = std::mem::replace(&mut terms, later) != later;
        changes.then_some(ScheduledChange { at: *at, capacity: later.capacity, rate })
    });
    Schedule::new(changes)
}
