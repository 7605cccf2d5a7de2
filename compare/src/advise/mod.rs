//! Which algorithm and tick suit a limit, and what it will cost Redis.

mod emit;
mod fit;
mod prices;
mod tick;
mod usage;

use std::time::Duration;

use serde::Serialize;
use topup_daemon::config::{Config, LimitConfig, SupplyConfig};
use topup_lab::fine;
use topup_wire::limit::Algorithm;

pub use emit::patch;
pub use prices::Prices;
pub use tick::{coarsest, suitable};
pub use usage::Usage;

use crate::{limiter::Limiter, replay::Trace, rule::Rule};

/// Algorithms that make the same decisions, so that only their price matters.
pub const ALIKE: [Limiter; 3] = [Limiter::TokenBucket, Limiter::LazyTokenBucket, Limiter::Gcra];
/// Cheaper by less than this is not worth a change.
const WORTH: f64 = 0.8;
/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Allowed takes a second of one bucket from which on a lease saves much: Redis and network are asked for each otherwise.
const LEASE_FROM: f64 = 1_000.0;

/// An algorithm, and its CPU seconds of Redis a day.
type Cost = (Limiter, f64);

/// A key of the limit's table in the config, with another value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The key.
    pub key: &'static str,
    /// Its value, as TOML.
    pub value: String,
}

/// Advice about one limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advice {
    /// Its name.
    pub limit: String,
    /// The algorithm it has.
    pub algorithm: String,
    /// The load on it.
    pub usage: Option<Usage>,
    /// CPU seconds of Redis a day, by algorithms that decide alike.
    pub costs: Vec<(String, f64)>,
    /// The longest tick, in ms, with which no window gets more than a tenth of a capacity too much.
    pub tick_ms: Option<f64>,
    /// In words.
    pub says: Vec<String>,
    /// In the config.
    pub changes: Vec<Change>,
}

/// Advice about every limit of `config`; `trace` is how the limit of that name is asked, where it is known.
pub fn advise(config: &Config, trace: Option<(&str, &Trace)>, prices: &Prices) -> Vec<Advice> {
    let of = |limit: &LimitConfig| {
        let trace = trace.filter(|(name, _)| *name == limit.name.as_str()).map(|(_, trace)| trace);
        about(limit, config.tick, trace, prices)
    };
    config.limits.values().map(of).collect()
}

fn about(limit: &LimitConfig, tick: Duration, trace: Option<&Trace>, prices: &Prices) -> Advice {
    let mut advice =
        Advice { limit: limit.name.to_string(), algorithm: limit.algorithm.to_string(), ..Advice::default() };
    let SupplyConfig::Rate(rate) = limit.supply else {
        advice
            .says
            .push("Nothing else decides as it does: only its own price counts, a command a take.".to_owned());
        return advice;
    };
    let rule = Rule::new(limit.capacity.get(), rate);
    let usage = trace.map_or_else(|| Usage::at_its_rate(&rule), |trace| Usage::of(trace, &rule));
    advice.says.push(usage.says(limit.keyed, trace.is_some()));
    let cost = |limiter| Some(prices.of(limiter, usage.rate)? * usage.active_per_day / 1e6);
    let costs: Vec<Cost> = ALIKE.iter().filter_map(|limiter| Some((*limiter, cost(*limiter)?))).collect();
    advice.costs = costs.iter().map(|(limiter, seconds)| (limiter.name(), *seconds)).collect();
    if limit.algorithm == Algorithm::TokenBucket {
        advice.tick_ms = Some(suitable(&rule).as_secs_f64() * 1e3);
        advice.says.extend(tick::says(&rule, tick, limit.catch_up));
    }
    let algorithm = limit.algorithm.to_string();
    advice.says.extend(cheaper(&algorithm, &costs));
    let better = best(&algorithm, &costs).filter(|(best, now)| best.1 < WORTH * now.1);
    advice
        .changes
        .extend(better.map(|(best, _)| Change { key: "algorithm", value: format!("{:?}", best.0.name()) }));
    if limit.algorithm == Algorithm::TokenBucket && limit.lease.is_none() && usage.rate >= LEASE_FROM {
        let lease = format!("{{ max = {} }}", (rule.capacity / 8).max(1));
        advice.says.push(format!(
            "A lease would answer most of its {} takes a second from memory: lease = {lease}.",
            fine(usage.rate)
        ));
        advice.changes.push(Change { key: "lease", value: lease });
    }
    advice.usage = Some(usage);
    advice
}

/// Whether another algorithm that decides alike costs less.
fn cheaper(algorithm: &str, costs: &[Cost]) -> Option<String> {
    let ((best, least), (_, now)) = best(algorithm, costs)?;
    if *least >= WORTH * now {
        return Some(format!("{algorithm} suits it: {} s of Redis CPU a day.", fine(*now)));
    }
    Some(format!(
        "{} is the better choice: {} s of Redis CPU a day, where {algorithm} takes {} s.",
        best.name(),
        fine(*least),
        fine(*now)
    ))
}

/// The cheapest of those that decide alike, and the one that there is.
fn best<'c>(algorithm: &str, costs: &'c [Cost]) -> Option<(&'c Cost, &'c Cost)> {
    let now = costs.iter().find(|(limiter, _)| limiter.name() == algorithm)?;
    Some((costs.iter().min_by(|(_, a), (_, b)| a.total_cmp(b))?, now))
}

/// All of it, as text.
pub fn text(advice: &[Advice], tick: Duration, coarsest: Option<Duration>) -> String {
    let mut text = String::new();
    for Advice { limit, algorithm, says, costs, .. } in advice {
        text.push_str(&format!("limit.{limit} ({algorithm})\n"));
        says.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        if !costs.is_empty() {
            let costs: Vec<String> =
                costs.iter().map(|(name, seconds)| format!("{name} {} s", fine(*seconds))).collect();
            text.push_str(&format!("  Redis CPU a day: {}\n", costs.join(", ")));
        }
        text.push('\n');
    }
    if let Some(coarsest) = coarsest {
        let word = if coarsest < tick { "shorten it" } else { "it suits" };
        let longer = coarsest >= 2 * tick;
        let word = if longer { "it may be as long, which costs less" } else { word };
        text.push_str(&format!(
            "daemon.tick is {tick:?}; the coarsest that suits all limits is {coarsest:?}: {word}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices() -> Prices {
        // Topping up has a price of its own, and a small one for each take; the others only one for each take.
        let of = |limiter, per_second: f64, per_take: f64| {
            let points = [1.0, 10.0, 100.0].map(|rate| (rate, per_second + rate * per_take));
            (limiter, points.to_vec())
        };
        Prices {
            curves: vec![
                of(Limiter::TokenBucket, 50.0, 1.0),
                of(Limiter::LazyTokenBucket, 0.0, 10.0),
                of(Limiter::Gcra, 0.0, 9.5),
            ],
        }
    }

    fn advice(table: &str) -> Advice {
        let config = Config::parse(&format!("[limit.api]\n{table}"), "config.toml").unwrap();
        advise(&config, None, &prices()).remove(0)
    }

    #[test]
    fn the_cheaper_of_those_that_decide_alike_is_named() {
        let slow = advice("capacity = 10\nrate = \"1/s\"");
        assert!(slow.says.iter().any(|line| line.contains("gcra is the better choice")), "{slow:?}");
        assert_eq!(slow.changes, [Change { key: "algorithm", value: "\"gcra\"".to_owned() }]);
        let fast = advice("capacity = 500\nrate = \"100/s\"");
        assert!(fast.says.iter().any(|line| line.contains("token-bucket suits it")), "{fast:?}");
        assert_eq!(fast.changes, []);
        let lazy = advice("capacity = 500\nrate = \"100/s\"\nalgorithm = \"lazy-token-bucket\"");
        assert!(lazy.says.iter().any(|line| line.contains("token-bucket is the better choice")), "{lazy:?}");
    }

    #[test]
    fn costs_are_those_of_a_day_at_its_rate() {
        let advice = advice("capacity = 500\nrate = \"100/s\"");
        // 150 µs a second.
        assert!((advice.costs[0].1 - 150.0 * 86_400.0 / 1e6).abs() < 1e-6, "{advice:?}");
    }

    #[test]
    fn a_quota_is_compared_with_nothing() {
        let advice = advice("capacity = 500\nrefill = { cron = \"0 0 0 1 * *\" }");
        assert!(advice.costs.is_empty() && advice.says.len() == 1);
    }

    #[test]
    fn a_pure_bucket_that_never_reaches_its_rate_is_told_so() {
        let advice = advice("capacity = 5\nrate = \"200/s\"\ncatch_up = false");
        assert!(advice.says.iter().any(|line| line.contains("never reaches its rate")), "{advice:?}");
    }
}
