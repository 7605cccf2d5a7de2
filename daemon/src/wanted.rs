//! What a config wants published at an instant.

use topup_wire::limit::{Algorithm, Lease, Limit, Percent, Rollout};

use crate::{
    config::{Config, LimitConfig, Source},
    publish::Wanted,
};

/// The limits of `config` that `which` picks, as they apply at `now` (µs of Redis `TIME`).
pub fn wanted(config: &Config, now: u64, which: impl Fn(&LimitConfig) -> bool) -> Vec<Wanted> {
    config
        .limits
        .values()
        .filter(|limit| which(limit))
        .flat_map(|limit| wanted_limit(config, limit, now))
        .collect()
}

/// The next instant, in µs of Redis `TIME`, at which a schedule or quota of `config` changes something.
pub fn next_boundary(config: &Config, now: u64) -> Option<u64> {
    config.limits.values().filter_map(|limit| limit.in_force(now).until).min()
}

/// The next instant at which a schedule of `config` may change a token bucket's capacity or rate.
pub fn next_change(config: &Config, now: u64) -> Option<u64> {
    config
        .limits
        .values()
        .filter(|limit| may_change(limit))
        .filter_map(|limit| limit.in_force(now).until)
        .min()
}

/// Whether `limit` has a schedule whose changes workers are told of ahead.
pub fn may_change(limit: &LimitConfig) -> bool {
    let steady = matches!(limit.source, Source::Rate(_)) && limit.algorithm == Algorithm::TokenBucket;
    steady && !limit.schedule.is_empty()
}

/// Whether `limit` has a schedule or quota.
pub fn has_calendar(limit: &LimitConfig) -> bool {
    !limit.schedule.is_empty() || matches!(limit.source, Source::Calendar(_))
}

/// A limit, behind what is tried beside it: who reads that there is something, finds it.
fn wanted_limit(config: &Config, limit: &LimitConfig, now: u64) -> Vec<Wanted> {
    let in_force = limit.in_force(now);
    let own = Limit {
        name: limit.name,
        keyed: limit.keyed,
        algorithm: limit.algorithm,
        terms: in_force.terms,
        catch_up: limit.catch_up,
        on_change: limit.on_change,
        tick: config.tick,
        shards: limit.shards,
        lease: limit.lease,
        rollout: limit.rollout,
        candidate: limit.candidate.is_some(),
        compared: limit.compared,
    };
    let plain =
        Limit { rollout: Rollout::default(), candidate: false, compared: Percent::NONE, ..own.clone() };
    let candidate = limit.candidate.as_ref().map(|candidate| {
        let terms = candidate.terms(own.terms);
        // No more is taken ahead than a smaller bucket holds.
        let lease =
            own.lease.and_then(|lease| Lease::new(lease.max().min(terms.capacity.get()), lease.ttl()).ok());
        Limit { name: own.name.candidate(), terms, lease, ..plain.clone() }
    });
    let lazy = (own.compared > Percent::NONE).then(|| Limit {
        name: own.name.lazy(),
        algorithm: Algorithm::LazyTokenBucket,
        catch_up: true,
        lease: None,
        ..plain
    });
    let all = [candidate, lazy, Some(own)].into_iter().flatten();
    all.map(|limit| Wanted { limit, at: in_force.since }).collect()
}
