//! What a config wants published at an instant.

use topup_wire::limit::Limit;

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
        .map(|limit| wanted_limit(config, limit, now))
        .collect()
}

/// The next instant, in µs of Redis `TIME`, at which a schedule or quota of `config` changes something.
pub fn next_boundary(config: &Config, now: u64) -> Option<u64> {
    config.limits.values().filter_map(|limit| limit.in_force(now).until).min()
}

/// Whether `limit` has a schedule or quota.
pub fn has_calendar(limit: &LimitConfig) -> bool {
    !limit.schedule.is_empty() || matches!(limit.source, Source::Calendar(_))
}

fn wanted_limit(config: &Config, limit: &LimitConfig, now: u64) -> Wanted {
    let in_force = limit.in_force(now);
    Wanted {
        limit: Limit {
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
        },
        at: in_force.since,
    }
}
