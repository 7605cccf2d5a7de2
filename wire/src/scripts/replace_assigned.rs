//! Replacement of all assignments of a limit at one instant.

use std::time::Duration;

use redis::RedisResult;
use tokio::time::sleep;

use super::{
    all_assigned::AllAssigned,
    arrange::{arrange, begin_arrangement, remove_arrangement},
    assign::Change,
    assigned::CHUNK,
    hash_order::{Place, by_hash},
};
use crate::{
    assigned_keys::AssignedKeys,
    assignments::KeyFilter,
    limit::{Assigned, Assignment, LimitName, Past},
    namespace::InNamespace,
};

/// Assignments written in one pipeline.
const ROWS_AT_ONCE: usize = 1_000;

/// Replaces all assignments of the limit `name` by `wanted`, at one instant, 1.25 s after this returns. `progress` is told
/// how many are written. Returns `None` if other assignments of the limit were changed meanwhile: nothing has changed then.
/// The arrangement before stays for workers that do not know yet. [`remove_idle`](super::remove_idle) removes it.
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
