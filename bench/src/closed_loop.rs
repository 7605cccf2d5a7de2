//! Loads of tasks that ask again as soon as they are answered: worker processes, and the work of Redis meanwhile.

use std::{process::Command, time::Duration};

use topup_lab::{Fixture, WorkerPool, clock::Stopwatch, machine};

use crate::{
    cli::programs::Programs,
    cpu,
    limiter::kind::Limiter,
    measurement::{Found, Measurement, Seen},
    rules::{Form, Rule},
};

/// Connecting and asking for every key once takes at most this.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(40);
/// From the end of the time to the result.
const SLACK: Duration = Duration::from_secs(10);

/// Measures `measurement` on an empty Redis. Where each key is a limit of its own, these limits are published first.
pub(crate) async fn measure(
    fixture: &mut Fixture,
    found: &Programs,
    measurement: &Measurement,
) -> anyhow::Result<Found> {
    if measurement.rule == Rule::Apart {
        return measure_as_it_is(fixture, found, measurement).await;
    }
    prepare(fixture, measurement.limiter, measurement.rule, measurement.keyed()).await?;
    if measurement.and_all {
        let form = measurement.limiter.form().unwrap_or(Form::TokenBucket);
        let limit = |keyed, form| measurement.rule.limit(keyed, form);
        let limits = [limit(true, Form::TokenBucket), limit(false, form)];
        fixture.published(&[(&limits[0], Some("key-0")), (&limits[1], None)]).await?;
    }
    measure_as_it_is(fixture, found, measurement).await
}

/// Empties Redis, and waits until the limit is published that `limiter` is to be asked for, if it has one.
pub(crate) async fn prepare(
    fixture: &mut Fixture,
    limiter: Limiter,
    rule: Rule,
    keyed: bool,
) -> anyhow::Result<()> {
    fixture.clear().await?;
    // The daemon publishes its limits after every clearing. Publishing is over before any limiter is measured.
    let form = limiter.form().unwrap_or(Form::TokenBucket);
    fixture.published(&[(&rule.limit(keyed, form), keyed.then_some("key-0"))]).await
}

/// Measures `measurement` on the Redis as it is.
pub(crate) async fn measure_as_it_is(
    fixture: &mut Fixture,
    found: &Programs,
    measurement: &Measurement,
) -> anyhow::Result<Found> {
    let commands = (0..measurement.processes).map(|_| command(fixture.url(), found, measurement));
    let commands = commands.collect::<anyhow::Result<Vec<_>>>()?;
    let mut workers = cpu::beside_redis(|| WorkerPool::start(commands))??;
    workers.ready(READY_WITHIN).await?;
    let (before, busy, daemon) = (fixture.counters().await?, machine::busy()?, fixture.daemon_cpu());
    let watch = Stopwatch::start();
    workers.tell_line("go").await?;
    let seen: Vec<Seen> = workers.hear_one(measurement.time + SLACK).await?;
    let (redis, busy) = (fixture.counters().await?.since(&before), machine::busy()? - busy);
    let ours =
        redis.cpu / 1e6 + seen.iter().map(|seen| seen.cpu).sum::<f64>() + fixture.daemon_cpu() - daemon;
    let others = ((busy - ours) / watch.elapsed().as_secs_f64()).max(0.0);
    workers.kill().await;
    Ok(Found::new(&seen, redis, others))
}

fn command(url: &str, found: &Programs, measurement: &Measurement) -> anyhow::Result<Command> {
    let Measurement { limiter, rule, keys, tasks, tokens, and_all, time, .. } = *measurement;
    let mut options = match limiter {
        Limiter::Limits | Limiter::RateLimiterFlexible => {
            vec![("capacity", rule.capacity().to_string()), ("rate", rule.per_second().to_string())]
        }
        _ => vec![("limiter", limiter.name()), ("rule", rule.argument())],
    };
    options.extend([("keys", keys.to_string()), ("tasks", tasks.to_string())]);
    options.push(("seconds", time.as_secs_f64().to_string()));
    if tokens > 1 {
        options.push(("tokens", tokens.to_string()));
    }
    let mut command = with_options(found.worker(limiter)?, url, &options);
    if and_all {
        command.arg("--and-all");
    }
    Ok(command)
}

/// `command` with the Redis and `options`.
pub(crate) fn with_options(mut command: Command, url: &str, options: &[(&str, String)]) -> Command {
    command.args(["--redis", url]);
    for (name, value) in options {
        command.arg(format!("--{name}")).arg(value);
    }
    command
}
