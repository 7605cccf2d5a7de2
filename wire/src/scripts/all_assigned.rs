//! All assignments of a limit, for people and files.

use std::collections::HashMap;

use redis::RedisResult;

use super::{
    assigned::unreadable,
    assignment_index::{assignment_index, matters_for},
};
use crate::{
    assigned_keys::AssignedKeys,
    assignments::Shape,
    constants::PLANS_AHEAD,
    limit::{Assigned, Assignment, LimitName, Past},
    namespace::InNamespace,
};

/// Hashes read in one pipeline.
pub(super) const HASHES_AT_ONCE: usize = 50;

/// The assignments of a limit at an instant, for people and files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllAssigned {
    /// The version of the limit's last change when they were read.
    pub version: u64,
    /// The instant of the reading, in µs of Redis `TIME`.
    pub now: u64,
    /// The arrangement; `None` where nothing was ever assigned.
    pub shape: Option<Shape>,
    /// Keys of which Redis knows something, those whose assignment was taken back included.
    pub known: u64,
    /// All assignments, in force or not.
    pub keys: AssignedKeys,
    /// The instant from which on no worker waits for a change of these any more.
    pub settled_at: u64,
    /// The assignments at that instant. Some may have ended by then.
    pub effective: AssignedKeys,
    /// Earlier assignments of keys, as far back as they still matter for tokens.
    pub(super) past: HashMap<String, Vec<Past<Option<Assignment>>>>,
}

// === impl AllAssigned ===

impl AllAssigned {
    /// Whether assignments before still matter for the tokens of some key.
    pub fn has_past(&self) -> bool {
        !self.past.is_empty()
    }
}

/// All assignments of the limit `name`.
///
/// # Errors
/// Errors of Redis, and a value that this version cannot read.
pub async fn all_assigned(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<AllAssigned> {
    let index = assignment_index(connection).await?;
    let now = super::now(connection).await?;
    let shape = index.shapes.get(name).copied();
    let version = index.versions.get(name).copied().unwrap_or(0);
    let mut all = AllAssigned { version, now, shape, settled_at: now, ..AllAssigned::default() };
    let Some(shape) = shape else { return Ok(all) };
    let since = now.saturating_sub(matters_for(connection, name).await?);
    let hashes: Vec<u64> = (0..shape.hashes).collect();
    for hashes in hashes.chunks(HASHES_AT_ONCE) {
        for (key, value) in read_hashes(connection, name, &shape, hashes).await? {
            let assigned = Assigned::from_text(&value, shape.at).map_err(unreadable)?;
            let is_settled = assigned.at <= now + PLANS_AHEAD;
            if is_settled {
                all.settled_at = all.settled_at.max(assigned.at);
            }
            let effective = if is_settled { assigned.assignment } else { assigned.before };
            if assigned.at > since && is_settled {
                all.past.insert(key.clone(), assigned.past_since(since));
            }
            all.known += 1;
            for (keys, assignment) in [(&mut all.keys, assigned.assignment), (&mut all.effective, effective)]
            {
                assignment.map_or(Ok(()), |assignment| keys.push(&key, assignment, 0)).map_err(unreadable)?;
            }
        }
    }
    all.keys.sort();
    all.effective.sort();
    Ok(all)
}

/// The keys of some hashes, and the texts of their assignments.
pub(super) async fn read_hashes(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shape: &Shape,
    hashes: &[u64],
) -> RedisResult<HashMap<String, String>> {
    let namespace = connection.namespace();
    let mut asked = redis::pipe();
    for hash in hashes {
        asked.hgetall(namespace.assignment_hash(name, shape, *hash));
    }
    let read: Vec<HashMap<String, String>> = asked.query_async(connection).await?;
    Ok(read.into_iter().flatten().collect())
}
