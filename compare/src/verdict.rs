//! Verdicts on limiters, in plain words.

use std::collections::BTreeMap;

use crate::{
    comparison::{Comparison, Measurement},
    cost::Load,
    limiter::Limiter,
    rule::TICK,
};

/// Less than this of what a perfect limiter admits is worth a word.
const STARVED: f64 = 0.98;
/// More than this of what a perfect limiter admits is.
const LAVISH: f64 = 1.005;
/// Longer than this (ms) with tokens and none given is.
const WITHHELD: f64 = 50.0;
/// A promise broken by longer than this (µs) is.
const LATE: f64 = 2_000.0;
/// Bytes of an active bucket beyond which it is.
const HEAVY: f64 = 1_000.0;

/// A verdict for each limiter.
pub fn verdicts(comparison: &Comparison) -> BTreeMap<Limiter, Vec<String>> {
    comparison.limiters().into_iter().map(|limiter| (limiter, verdict(comparison, limiter))).collect()
}

fn verdict(comparison: &Comparison, limiter: Limiter) -> Vec<String> {
    let measurements: Vec<&Measurement> =
        comparison.measurements.iter().filter(|measurement| measurement.limiter == limiter).collect();
    let mut says = Vec::new();
    says.extend(excess(comparison, &measurements));
    says.extend(starved(&measurements));
    says.extend(lavish(&measurements));
    says.extend(refusals(comparison, limiter));
    says.extend(promises(&measurements));
    if says.is_empty() && !measurements.is_empty() {
        says.push(exact(&measurements));
    }
    says.extend(cost(comparison, limiter));
    says
}

fn exact(measurements: &[&Measurement]) -> String {
    let counted = || {
        measurements
            .iter()
            .filter(|measurement| measurement.traffic != "redis-restart")
            .map(|measurement| &measurement.score)
    };
    let (allowed, denied): (u64, u64) =
        counted().fold((0, 0), |(a, d), score| (a + score.wrongly_allowed, d + score.wrongly_denied));
    if (allowed, denied) == (0, 0) {
        return "Exact: nothing was wrong under any traffic that was played.".to_owned();
    }
    let asked: u64 = counted().map(|score| score.asked).sum();
    format!(
        "Nearly exact: of {asked} takes, {allowed} tokens too many and {denied} denials too many, none of them by much."
    )
}

fn excess(comparison: &Comparison, measurements: &[&Measurement]) -> Option<String> {
    let room = |measurement: &Measurement| {
        let traffic = comparison.traffics.iter().find(|traffic| traffic.name == measurement.traffic);
        traffic.map_or(0.0, |traffic| traffic.rule.credit(TICK))
    };
    let tokens = |measurement: &Measurement| measurement.score.excess.tokens;
    // After a restart, Redis has forgotten all takes, whatever the limiter.
    let counted = measurements.iter().filter(|measurement| measurement.traffic != "redis-restart");
    let relative = |measurement: &Measurement| {
        let traffic = comparison.traffics.iter().find(|traffic| traffic.name == measurement.traffic);
        tokens(measurement) / traffic.map_or(1.0, |traffic| traffic.rule.capacity as f64)
    };
    let worst = counted.max_by(|a, b| relative(a).total_cmp(&relative(b)))?;
    if tokens(worst) < 0.5 {
        return None;
    }
    let traffic = comparison.traffics.iter().find(|traffic| traffic.name == worst.traffic)?;
    let (score, capacity) = (&worst.score, traffic.rule.capacity);
    let within = if tokens(worst) <= room(worst) + 0.5 { ", within one tick's credit" } else { "" };
    Some(format!(
        "Admits up to {:.1} tokens too many ({:.0} % of capacity) within {:.0} ms{within} ({}, at {:.2} s).",
        tokens(worst),
        100.0 * tokens(worst) / capacity as f64,
        score.excess.window_ms,
        worst.traffic,
        score.excess.at,
    ))
}

fn starved(measurements: &[&Measurement]) -> Option<String> {
    let counted = measurements.iter().filter(|measurement| {
        measurement.score.failed * 20 < measurement.score.asked && measurement.traffic != "redis-restart"
    });
    let worst = counted.clone().min_by(|a, b| a.score.share().total_cmp(&b.score.share()))?;
    if worst.score.share() < STARVED {
        return Some(format!(
            "Gives only {:.1} % of what it should ({}); {} takes were denied wrongly.",
            100.0 * worst.score.share(),
            worst.traffic,
            worst.score.wrongly_denied,
        ));
    }
    let worst = counted.max_by(|a, b| a.score.starved_ms.total_cmp(&b.score.starved_ms))?;
    (worst.score.starved_ms > WITHHELD).then(|| {
        format!(
            "Denies for {:.0} ms although there are tokens ({}, at {:.2} s).",
            worst.score.starved_ms, worst.traffic, worst.score.starved_at
        )
    })
}

fn lavish(measurements: &[&Measurement]) -> Option<String> {
    let counted = measurements.iter().filter(|measurement| measurement.traffic != "redis-restart");
    let worst = counted.max_by(|a, b| a.score.share().total_cmp(&b.score.share()))?;
    (worst.score.share() > LAVISH)
        .then(|| format!("Gives {:.1} % of what it should ({}).", 100.0 * worst.score.share(), worst.traffic))
}

/// The more is asked, the less is given: denials are counted as if they had been allowed.
fn refusals(comparison: &Comparison, limiter: Limiter) -> Option<String> {
    let share = |name| comparison.measurement(limiter, name).map(|measurement| measurement.score.share());
    let (half, five) = (share("steady-0.5")?, share("steady-5")?);
    (half > STARVED && five < 0.9 * half).then(|| {
        format!(
            "Those it denies keep it shut: below its rate it gives {:.0} %, at five times its rate {:.0} %.",
            100.0 * half,
            100.0 * five
        )
    })
}

fn promises(measurements: &[&Measurement]) -> Option<String> {
    let (measurement, promises) = measurements
        .iter()
        .find_map(|measurement| Some((measurement, measurement.score.promises.as_ref()?)))?;
    let late = promises.late?;
    (late.p99 > LATE).then(|| {
        format!(
            "Promises to have tokens up to {:.1} ms before it gives them ({}).",
            late.p99 / 1e3,
            measurement.traffic
        )
    })
}

fn cost(comparison: &Comparison, limiter: Limiter) -> Vec<String> {
    let Some(cost) = comparison.cost(limiter) else { return Vec::new() };
    let cpu = |load| cost.under(load).map_or(f64::NAN, |under| under.cpu);
    let mut says = vec![format!(
        "Costs Redis {:.2} µs a decision at full load ({:.2} over 1,000 buckets), {:.2} a denied one.",
        cpu(Load::Allowed),
        cpu(Load::Keys),
        cpu(Load::Denied)
    )];
    if limiter == Limiter::TokenBucket {
        says.extend(against_lazy(comparison));
    }
    if let Some(memory) = cost.memory.filter(|memory| memory.active > HEAVY) {
        says.push(format!("An active bucket takes {:.0} bytes.", memory.active));
    }
    says
}

/// Where topping up is cheaper than lazy refill as usually written, and where it is not.
fn against_lazy(comparison: &Comparison) -> Option<String> {
    let (ours, lazy) = (comparison.cost(Limiter::TokenBucket)?, comparison.cost(Limiter::LazyLua)?);
    let share = |load| Some(ours.under(load)?.cpu / lazy.under(load)?.cpu);
    let (one, many) = (share(Load::Allowed)?, share(Load::Keys)?);
    let mut says =
        format!("That is {one:.2} of lazy-lua's, refill included, and {many:.2} over 1,000 buckets.");
    if let Some(crossover) = &comparison.crossover {
        let from = crossover.at_usual.map_or("at no rate that was measured".to_owned(), |at| {
            format!("only from about {at:.0} takes per bucket and second on")
        });
        says.push_str(&format!(" For sparse buckets it is dearer: with 10/s each, it is cheaper {from}."));
    }
    Some(says)
}
