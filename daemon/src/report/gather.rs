//! Reads the published limits, their counts and the live daemons, whatever state Redis is in.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    future::{BoxFuture, FutureExt},
    stream::{self, StreamExt},
};
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::time::timeout;
use topup_wire::{
    connection::{Cause, Connection},
    limit::{LimitName, Shards},
    namespace::InNamespace,
    scripts,
};

use super::{
    DaemonRow, Health, PauseRow, StatusReport,
    ownership::{conflicts, owners},
    read_limit::row,
};
use crate::{clock::Moment, refill::SLOW, text::utc};

/// The longest time for the diagnosis of a failure.
const DIAGNOSIS: Duration = Duration::from_millis(600);

/// Most limits that code has defined, of which a report tells more than their number.
const MOST_DEFINED: usize = 200;

const SLOW_ACTION: &str = "see SLOWLOG, the machine of Redis and the network";

/// The load that a report may put on Redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The longest time for all questions.
    budget: Duration,
    /// Limits that are asked about side by side.
    pub(super) limits: usize,
}

// === impl Pace ===

impl Pace {
    /// For a person who waits. With a diagnosis behind it, the report takes less than 2 s.
    pub(crate) const AT_ONCE: Self = Self { budget: Duration::from_millis(1_200), limits: 1_000 };
    /// For a server that is asked again and again. Takes and refill wait for a few short commands at most.
    pub(crate) const GENTLE: Self = Self { budget: Duration::from_secs(5), limits: 8 };
}

/// The report while several reads fill it.
#[derive(Debug, Default)]
struct Reading {
    report: StatusReport,
    /// Whether the live daemons have been read.
    knows_daemons: bool,
}

/// Reads what there is within the budget of `pace`, and says what is wrong. `redis` names the server.
pub(crate) async fn gather(redis: String, connection: &Connection, pace: Pace) -> StatusReport {
    let reading = Mutex::new(Reading::default());
    let result = timeout(pace.budget, read(&reading, connection, pace)).await;
    let Reading { mut report, knows_daemons } = reading.into_inner().unwrap_or_else(PoisonError::into_inner);
    (report.redis, report.namespace) = (redis, connection.namespace().to_string());
    report.limits.sort_by(|one, other| one.name.cmp(&other.name));
    let error = match result {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error),
        Err(_) if report.latency_ms.is_some() => {
            let what = format!("Redis is slow: not all answers came within {:?}", pace.budget);
            report.add_problem(Health::Degraded, "slow", what, SLOW_ACTION);
            None
        }
        Err(_) => Some(RedisError::from((ErrorKind::Io, "no answer", format!("within {:?}", pace.budget)))),
    };
    if let Some(error) = error {
        let cause = timeout(DIAGNOSIS, connection.diagnose(&error)).await;
        report.add_refusal(cause.unwrap_or(Cause::of(&error)), &error);
    }
    // A Redis that refuses to write refuses heartbeats and publications, too.
    if report.health < Health::Undecided && report.generation.is_none() {
        let action = "start topupd, or see its log: it publishes the limits of its config";
        report.add_problem(Health::Unpublished, "unpublished", "nothing is published", action);
    } else if report.health < Health::Undecided && knows_daemons && report.daemons.is_empty() {
        let action = "start topupd; until then workers take by script, exactly, and schedules stand still";
        report.add_problem(Health::NoDaemon, "no-daemon", "no daemon is alive", action);
    }
    report
}

fn lock(reading: &Mutex<Reading>) -> MutexGuard<'_, Reading> {
    reading.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the published state. An error leaves earlier answers in `reading`.
async fn read(reading: &Mutex<Reading>, connection: &Connection, pace: Pace) -> RedisResult<()> {
    let (basics, daemons, limits) = (
        basics(reading, connection.clone()),
        daemons(reading, connection.clone()),
        limits(reading, connection, pace),
    );
    tokio::try_join!(basics, daemons, limits).map(drop)
}

/// Reads the generation and the latency, and whether Redis would write.
async fn basics(reading: &Mutex<Reading>, mut connection: Connection) -> RedisResult<()> {
    let generation = scripts::generation(&mut connection).await?;
    // The first command had to connect, too.
    let began = Moment::now();
    let written = scripts::check_writes(&mut connection).await;
    let (report, latency) = (&mut lock(reading).report, began.elapsed());
    (report.generation, report.latency_ms) = (generation, Some(latency.as_secs_f64() * 1e3));
    if latency > SLOW {
        let what = format!("Redis is slow: an answer takes {latency:.0?}");
        report.add_problem(Health::Degraded, "slow", what, SLOW_ACTION);
    }
    match written {
        // A user that may only look.
        Err(error) if Cause::of(&error) != Cause::Rights => report.add_refusal(Cause::of(&error), &error),
        _ => {}
    }
    Ok(())
}

async fn daemons(reading: &Mutex<Reading>, mut connection: Connection) -> RedisResult<()> {
    let alive = scripts::daemons(&mut connection).await?;
    let reading = &mut *lock(reading);
    reading.report.add_daemons(alive.into_iter().map(DaemonRow::from));
    reading.knows_daemons = true;
    Ok(())
}

async fn limits(reading: &Mutex<Reading>, connection: &Connection, pace: Pace) -> RedisResult<()> {
    let mut asked = connection.clone();
    if let Some(newer) = scripts::newer_schema(&mut asked).await? {
        let report = &mut lock(reading).report;
        report.newer_schema = Some(newer.number());
        let action = "use the topupd of that version";
        report.add_problem(Health::Degraded, "newer-schema", newer.to_string(), action);
        return Ok(());
    }
    // In one round trip: a slow Redis leaves time for few.
    let [mut first, mut second, mut third, mut fourth] = std::array::from_fn(|_| connection.clone());
    let (now, published, paused, sources, defined) = tokio::join!(
        scripts::now(&mut asked),
        scripts::published_limits(&mut first),
        scripts::paused(&mut second),
        scripts::source_statuses(&mut third),
        scripts::defined_limits(&mut fourth),
    );
    let now = now?;
    lock(reading).report.now = Some(now);
    // A user of an earlier version may not read the last three.
    let (names, left_out) = shown(published?, &defined.unwrap_or_default());
    {
        let report = &mut lock(reading).report;
        report.pauses = PauseRow::of(paused.unwrap_or_default(), now);
        report.add_sources(sources.unwrap_or_default());
        report.limits_not_shown = left_out;
    }
    let rows: Vec<BoxFuture<'_, ()>> =
        names.into_iter().map(|name| add_row(reading, connection, name, now).boxed()).collect();
    let rows = stream::iter(rows).buffer_unordered(pace.limits).collect::<()>();
    let ((), seen) = tokio::join!(rows, scripts::ownership(&mut asked));
    let (seen, report) = (seen?, &mut lock(reading).report);
    for row in &mut report.limits {
        let name = LimitName::published(&row.name);
        row.owners = name.as_ref().map(|name| owners(&name.live(), &seen)).unwrap_or_default();
        let definition = name.ok().and_then(|name| seen.defined.get(&name));
        row.defined_until = definition.map(|definition| utc(definition.until));
        row.orphaned = !row.owners.iter().any(|owner| owner.alive);
    }
    report.add_conflicts(conflicts(&seen));
    Ok(())
}

/// The limits of a report, and the number of those that it leaves out: code may have defined thousands.
pub(super) fn shown(
    published: BTreeMap<LimitName, Shards>,
    defined: &BTreeSet<LimitName>,
) -> (Vec<LimitName>, usize) {
    let names = published.into_keys().filter(|name| !name.is_trial());
    let (mut by_code, mut names): (Vec<LimitName>, Vec<LimitName>) =
        names.partition(|name| defined.contains(name));
    let left_out = by_code.len().saturating_sub(MOST_DEFINED);
    by_code.truncate(MOST_DEFINED);
    names.append(&mut by_code);
    (names, left_out)
}

/// Adds the row of one limit, or the problem with it.
async fn add_row(reading: &Mutex<Reading>, connection: &Connection, name: LimitName, now: u64) {
    let row = row(connection.clone(), &name, now).await;
    let report = &mut lock(reading).report;
    match row {
        Ok(row) => report.limits.extend(row),
        Err(error) => {
            let what = format!("limit {name} cannot be read ({error})");
            let action = "reload topupd: it publishes the limit anew";
            report.add_problem(Health::Degraded, "unreadable", what, action);
        }
    }
}
