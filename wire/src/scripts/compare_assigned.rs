//! Comparison of a limit's assignments in Redis with those that are wanted.

use redis::RedisResult;

use super::{
    all_assigned::{HASHES_AT_ONCE, read_hashes},
    assign::{KeyChange, MOST_LOGGED},
    assigned::unreadable,
    assignment_index::assignment_index,
    hash_order::by_hash,
};
use crate::{
    assigned_keys::AssignedKeys,
    assignments::Shape,
    limit::{Assigned, Assignment, LimitName},
    namespace::InNamespace,
};

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
