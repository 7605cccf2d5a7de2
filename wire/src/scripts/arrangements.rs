//! Whole sets of assignments: comparison with what Redis has, and replacement at one instant.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
    time::Duration,
};

use redis::{Cmd, ParsingError, RedisResult, Script};

use super::assignments::{
    ATTEMPTS, AllAssigned, CHUNK, Change, HASHES_AT_ONCE, KeyChange, MOST_LOGGED, assignment_index,
    unreadable,
};
use crate::{
    assignments::{KeyFilter, Shape},
    constants::with_constants,
    limit::{Assigned, Assignment, LimitName},
    namespace::InNamespace,
};

static ARRANGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&with_constants(include_str!("arrange.lua"))));

/// Assignments written in one pipeline.
const ROWS_AT_ONCE: usize = 1_000;
/// Workers know of a new arrangement by then, and read nothing of the one before any more.
pub const IDLE: Duration = Duration::from_secs(2);

/// The differences between the assignments in Redis and those that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Keys in Redis that are assigned now.
    pub held: u64,
    /// Keys that differ.
    pub different: u64,
    /// The first [`MOST_LOGGED`] of them, as they are wanted.
    pub changes: Vec<KeyChange>,
    /// Whether the arrangement in Redis has room for all of them.
    pub has_room: bool,
}

/// Compares the assignments of the limit `name` in Redis with `wanted`, some hashes at a time.
///
/// # Errors
/// Errors of Redis, and a value that this version cannot read.
pub async fn compare_assigned(
    connection: &mut impl InNamespace,
    name: &LimitName,
    wanted: &BTreeMap<String, Assignment>,
) -> RedisResult<Differences> {
    let namespace = connection.namespace();
    let index = assignment_index(connection).await?;
    let now = super::now(connection).await?;
    let shape = index.shapes.get(name).copied();
    let by_shape = shape.unwrap_or_else(|| Shape::for_keys(1, 0));
    let mut order: Vec<(u64, &str, &Assignment)> =
        wanted.iter().map(|(key, one)| (by_shape.hash_of(key), key.as_str(), one)).collect();
    order.sort_unstable_by_key(|(hash, ..)| *hash);
    let mut found = Differences::default();
    let mut differs = |key: &str, assignment: Option<Assignment>| {
        found.different += 1;
        if found.changes.len() < MOST_LOGGED {
            found.changes.push((key.to_owned(), assignment));
        }
    };
    let Some(shape) = shape else {
        order.iter().for_each(|(_, key, one)| differs(key, Some(**one)));
        found.has_room = by_shape.has_room_for(wanted.len() as u64);
        return Ok(found);
    };
    let (mut held, mut fields, mut rest) = (0, 0, order.as_slice());
    let hashes: Vec<u64> = (0..shape.hashes).collect();
    for hashes in hashes.chunks(HASHES_AT_ONCE) {
        let mut asked = redis::pipe();
        for hash in hashes {
            asked.hgetall(namespace.assignment_hash(name, &shape, *hash));
        }
        let read: Vec<HashMap<String, String>> = asked.query_async(connection).await?;
        let mut read: HashMap<String, String> = read.into_iter().flatten().collect();
        let last = hashes.last().copied().unwrap_or_default();
        let (here, behind) = rest.split_at(rest.partition_point(|(hash, ..)| *hash <= last));
        rest = behind;
        let parse = |text: &str| Assigned::from_text(text, shape.at).map_err(unreadable);
        let is_held = |one: &Assigned| one.assignment.is_some_and(|one| one.holds_at(now));
        for (_, key, one) in here {
            fields += 1;
            let assigned = read.remove(*key).map(|text| parse(&text)).transpose()?;
            held += u64::from(assigned.as_ref().is_some_and(is_held));
            if assigned.and_then(|assigned| assigned.assignment).as_ref() != Some(*one) {
                differs(key, Some(**one));
            }
        }
        for (key, text) in &read {
            let assigned = parse(text)?;
            fields += 1;
            held += u64::from(is_held(&assigned));
            if assigned.assignment.is_some() {
                differs(key, None);
            }
        }
    }
    (found.held, found.has_room) = (held, shape.has_room_for(fields));
    Ok(found)
}

/// Replaces all assignments of the limit `name` by `wanted`, at one instant, 1.25 s after this returns. `progress` is told
/// how many are written. Returns `None` if other assignments of the limit were changed meanwhile: nothing has changed then.
/// The arrangement before stays for workers that do not know yet. [`remove_idle`] removes it.
///
/// # Errors
/// Errors of Redis. Nothing has changed then, unless the last step had no answer.
pub async fn replace_assigned(
    connection: &mut impl InNamespace,
    name: &LimitName,
    held: &AllAssigned,
    wanted: &BTreeMap<String, Assignment>,
    mut progress: impl FnMut(usize),
) -> RedisResult<Option<Change>> {
    let namespace = connection.namespace();
    // The terms now, which hold until the change.
    let before = |key: &str| held.keys.get(key).and_then(|assigned| assigned.target_at(held.now));
    let taken_back = held.keys.keys().filter(|key| !wanted.contains_key(*key) && before(key).is_some());
    let rows = wanted.iter().map(|(key, one)| (key.as_str(), Some(*one)));
    let rows = rows.chain(taken_back.map(|key| (key.as_str(), None)));
    let count = wanted.len() + held.keys.len();
    let shape = begin_arrangement(connection, name, held, count as u64).await?;
    let mut rows: Vec<(u64, &str, Option<Assignment>)> =
        rows.map(|(key, assignment)| (shape.hash_of(key), key, assignment)).collect();
    rows.sort_unstable_by_key(|(hash, ..)| *hash);
    let mut filter = KeyFilter::new(Vec::new(), &shape);
    let mut asked = redis::pipe();
    let (mut waiting, mut written) = (0, 0);
    for of_hash in rows.chunk_by(|one, other| one.0 == other.0) {
        let value = |assignment: Option<Assignment>, before| {
            let mut value = Assigned { assignment, before, at: 0 }.to_text(false);
            if assignment.map(|one| one.target) == before {
                // Nothing changes, so nothing is said of before.
                value.truncate(value.find('<').unwrap_or(value.len()));
            }
            value
        };
        let fields: Vec<(&str, String)> = of_hash
            .iter()
            .map(|(_, key, assignment)| {
                filter.insert(key);
                (*key, value(*assignment, before(key)))
            })
            .collect();
        asked.hset_multiple(namespace.assignment_hash(name, &shape, of_hash[0].0), &fields).ignore();
        waiting += fields.len();
        if waiting >= ROWS_AT_ONCE {
            asked.query_async::<()>(connection).await?;
            asked.clear();
            written += std::mem::take(&mut waiting);
            progress(written);
        }
    }
    let key = namespace.assignment_filter(name, &shape);
    for (chunk, bytes) in filter.as_bytes().chunks(CHUNK as usize).enumerate() {
        asked.setrange(&key, (chunk as u64 * CHUNK) as isize, bytes).ignore();
    }
    asked.query_async::<()>(connection).await?;
    progress(written + waiting);
    let (done, now, at) =
        arrange(connection, name, held.version, &format!("{} {} {}", shape.number, shape.hashes, shape.bits))
            .await?;
    if done == 0 {
        remove_arrangement(connection, name, &shape).await?;
        return Ok(None);
    }
    Ok(Some(Change { now, at, changed: rows.len() as u64 }))
}

/// Notes a new arrangement that is not in force yet. No other has its number.
async fn begin_arrangement(
    connection: &mut impl InNamespace,
    name: &LimitName,
    held: &AllAssigned,
    keys: u64,
) -> RedisResult<Shape> {
    let index = connection.namespace().assigned();
    let count = |by: u64| Cmd::hincr(&index, " number", by);
    // Where there is no arrangement, `assign` makes the first one.
    let past = held.shape.map_or(1, |shape| shape.number);
    let mut number: u64 = count(1).query_async(connection).await?;
    if number <= past {
        number = count(past + 1 - number).query_async(connection).await?;
    }
    let shape = Shape::for_keys(number, keys);
    let (field, value) = (idle_field(name, &shape), format!("{} {} {}", shape.hashes, shape.bits, held.now));
    Cmd::hset(&index, field, value).query_async::<()>(connection).await?;
    Ok(shape)
}

async fn arrange(
    connection: &mut impl InNamespace,
    name: &LimitName,
    version: u64,
    shape: &str,
) -> RedisResult<(u8, u64, u64)> {
    let namespace = connection.namespace();
    let mut call = ARRANGE.key(namespace.assigned());
    call.key(namespace.assignment_log()).arg(name.as_str()).arg(version).arg(shape);
    call.invoke_async(connection).await
}

fn idle_field(name: &LimitName, shape: &Shape) -> String {
    format!(" idle {name} {}", shape.number)
}

/// Removes the arrangements of the limit `name` that have not been in force for the time `idle`. They were replaced, or their
/// replacement was given up.
///
/// # Errors
/// Errors of Redis. May be called again.
pub async fn remove_idle(
    connection: &mut impl InNamespace,
    name: &LimitName,
    idle: Duration,
) -> RedisResult<()> {
    let index = assignment_index(connection).await?;
    let of_limit: Vec<&Shape> =
        index.idle.iter().filter(|(other, _)| other == name).map(|(_, shape)| shape).collect();
    if of_limit.is_empty() {
        return Ok(());
    }
    let now = super::now(connection).await?;
    for shape in of_limit {
        if now.saturating_sub(shape.at) >= idle.as_micros() as u64 {
            remove_arrangement(connection, name, shape).await?;
        }
    }
    Ok(())
}

/// Removes the hashes and the filter of an arrangement that is not in force.
///
/// # Errors
/// Errors of Redis. May be called again.
pub async fn remove_arrangement(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shape: &Shape,
) -> RedisResult<()> {
    let namespace = connection.namespace();
    let mut asked = redis::pipe();
    asked.cmd("UNLINK").arg(namespace.assignment_filter(name, shape)).ignore();
    asked.query_async::<()>(connection).await?;
    let hashes: Vec<u64> = (0..shape.hashes).collect();
    for hashes in hashes.chunks(HASHES_AT_ONCE) {
        let mut unlink = Cmd::new();
        unlink.arg("UNLINK");
        for hash in hashes {
            unlink.arg(namespace.assignment_hash(name, shape, *hash));
        }
        unlink.query_async::<()>(connection).await?;
    }
    Cmd::hdel(namespace.assigned(), idle_field(name, shape)).query_async(connection).await
}

/// Removes all assignments of a limit that is removed itself, or all that a source has brought.
///
/// # Errors
/// Errors of Redis. May be called again.
pub async fn forget_assigned(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<()> {
    for _ in 0..ATTEMPTS {
        remove_idle(connection, name, Duration::ZERO).await?;
        let index = assignment_index(connection).await?;
        let Some(shape) = index.shapes.get(name) else { return Ok(()) };
        remove_arrangement(connection, name, shape).await?;
        let version = index.versions.get(name).copied().unwrap_or(0);
        if arrange(connection, name, version, "").await?.0 == 1 {
            return Ok(());
        }
    }
    Err(ParsingError::from("the assignments change all the time").into())
}
