//! Whole sets of assignments: comparison with what Redis has, and replacement at one instant.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, ParsingError, RedisResult, Script};
use tokio::time::sleep;

use super::assignments::{
    ATTEMPTS, AllAssigned, CHUNK, Change, HASHES_AT_ONCE, KeyChange, MOST_LOGGED, assignment_index,
    read_hashes, unreadable,
};
use crate::{
    assigned_keys::AssignedKeys,
    assignments::{KeyFilter, Shape},
    constants::with_constants,
    limit::{Assigned, Assignment, LimitName, Past},
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

/// A key by its place in a list, and the hash that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    hash: u32,
    index: u32,
}

/// Compares the assignments of the limit `name` in Redis with `wanted`, some hashes at a time.
///
/// # Errors
/// Errors of Redis, and a value that this version cannot read.
pub async fn compare_assigned(
    connection: &mut impl InNamespace,
    name: &LimitName,
    wanted: &AssignedKeys,
) -> RedisResult<Differences> {
    let index = assignment_index(connection).await?;
    let now = super::now(connection).await?;
    let shape = index.shapes.get(name).copied();
    let by_shape = shape.unwrap_or_else(|| Shape::for_keys(1, 0));
    let order = by_hash(&by_shape, wanted.iter().map(|(key, _)| key));
    let mut found = Differences::default();
    let mut differs = |key: &str, assignment: Option<Assignment>| {
        found.different += 1;
        if found.changes.len() < MOST_LOGGED {
            found.changes.push((key.to_owned(), assignment));
        }
    };
    let Some(shape) = shape else {
        wanted.iter().for_each(|(key, one)| differs(key, Some(one)));
        found.has_room = by_shape.has_room_for(wanted.len() as u64);
        return Ok(found);
    };
    let (mut held, mut fields, mut rest) = (0, 0, order.as_slice());
    let hashes: Vec<u64> = (0..shape.hashes).collect();
    for hashes in hashes.chunks(HASHES_AT_ONCE) {
        let mut read = read_hashes(connection, name, &shape, hashes).await?;
        let last = hashes.last().copied().unwrap_or_default();
        let (here, behind) = rest.split_at(rest.partition_point(|place| u64::from(place.hash) <= last));
        rest = behind;
        let parse = |text: &str| Assigned::from_text(text, shape.at).map_err(unreadable);
        let is_held = |one: &Assigned| one.assignment.is_some_and(|one| one.holds_at(now));
        for (key, one) in here.iter().filter_map(|place| wanted.get(place.index as usize)) {
            fields += 1;
            let assigned = read.remove(key).map(|text| parse(&text)).transpose()?;
            held += u64::from(assigned.as_ref().is_some_and(is_held));
            if assigned.and_then(|assigned| assigned.assignment) != Some(one) {
                differs(key, Some(one));
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
    wanted: &AssignedKeys,
    mut progress: impl FnMut(usize),
) -> RedisResult<Option<Change>> {
    let namespace = connection.namespace();
    // A change that workers wait for takes force first: not all of them would know in time that it is taken back.
    sleep(Duration::from_micros(held.settled_at.saturating_sub(held.now))).await;
    // The assignment of a key then, until the change.
    let before = |key: &str| held.effective.of(key).filter(|one| one.holds_at(held.settled_at));
    let keys = held.effective.iter().map(|(key, _)| key);
    let mut taken_back: Vec<&str> =
        keys.filter(|key| wanted.of(key).is_none() && before(key).is_some()).collect();
    // Tokens of a key that has none may still be in the bucket of a plan.
    let others = held.past.keys().map(String::as_str);
    taken_back.extend(others.filter(|key| wanted.of(key).is_none() && before(key).is_none()));
    let count = wanted.len() as u64 + held.known;
    let shape = begin_arrangement(connection, name, held, count).await?;
    let places = by_hash(&shape, wanted.iter().map(|(key, _)| key).chain(taken_back.iter().copied()));
    let row = |place: &Place| {
        let index = place.index as usize;
        let wanted_row = wanted.get(index).map(|(key, one)| (key, Some(one)));
        wanted_row.or_else(|| Some((*taken_back.get(index - wanted.len())?, None)))
    };
    let mut filter = KeyFilter::new(Vec::new(), &shape);
    let mut asked = redis::pipe();
    let (mut waiting, mut written) = (0, 0);
    for of_hash in places.chunk_by(|one, other| one.hash == other.hash) {
        let value = |key: &str, assignment: Option<Assignment>| {
            let (before, past) = (before(key), held.past.get(key).cloned().unwrap_or_default());
            let with = |before, at, past| Assigned { assignment, before, at, past };
            match &past[..] {
                _ if assignment != before => with(before, 0, past).to_text(false),
                [Past { until, was: Some(was) }, rest @ ..] => {
                    with(*was, *until, rest.to_vec()).to_text(true)
                }
                // Nothing changes, so nothing is said of before.
                _ => {
                    let mut value = with(None, 0, Vec::new()).to_text(false);
                    value.truncate(value.find('<').unwrap_or(value.len()));
                    value
                }
            }
        };
        let fields: Vec<(&str, String)> = of_hash
            .iter()
            .filter_map(row)
            .map(|(key, assignment)| {
                filter.insert(key);
                (key, value(key, assignment))
            })
            .collect();
        let hash = u64::from(of_hash[0].hash);
        asked.hset_multiple(namespace.assignment_hash(name, &shape, hash), &fields).ignore();
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
    Ok(Some(Change { now, at, changed: places.len() as u64 }))
}

/// The places of `keys`, in the order of their hashes.
fn by_hash<'k>(shape: &Shape, keys: impl Iterator<Item = &'k str>) -> Vec<Place> {
    // An arrangement has fewer than 2^32 hashes, and no machine room for 2^32 rows.
    let place = |(index, key)| Place { hash: shape.hash_of(key) as u32, index };
    let mut places: Vec<Place> = (0..).zip(keys).map(place).collect();
    places.sort_unstable();
    places
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

/// Removes the arrangements of the limit `name` that have not been in force for the time `idle`. They were replaced, or
/// their replacement was given up.
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
