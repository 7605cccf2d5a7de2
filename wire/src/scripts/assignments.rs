//! Assignments of keys to plans: changes, look-ups, and what workers read of them.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::{Cmd, ParsingError, RedisResult, Script};

use crate::{
    assignments::{KeyFilter, Shape},
    constants::with_constants,
    limit::{Assigned, Assignment, LimitName},
    namespace::InNamespace,
};

static ASSIGN: LazyLock<Script> = LazyLock::new(|| Script::new(&with_constants(include_str!("assign.lua"))));

/// Most changes that the log tells. A worker that has missed more reads the filters again.
pub const MOST_LOGGED: usize = 1_000;
/// Most keys of one call that assigns.
pub const MOST_AT_ONCE: usize = 250;
/// Bytes of a filter in one reply.
pub(super) const CHUNK: u64 = 1 << 18;
/// Hashes read in one pipeline.
pub(super) const HASHES_AT_ONCE: usize = 50;
/// Attempts while others change the arrangement.
pub(super) const ATTEMPTS: usize = 5;

/// A change of one key's assignment; `None` takes it back.
pub type KeyChange = (String, Option<Assignment>);

/// The outcome of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The instant of the call, in µs of Redis `TIME`.
    pub now: u64,
    /// The instant at which it takes force.
    pub at: u64,
    /// Keys whose assignment has changed.
    pub changed: u64,
}

/// The part of all assignments that every worker reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssignmentIndex {
    /// Rises with each change, as control polls tell it.
    pub version: u64,
    /// The log tells all changes after this version.
    pub since: u64,
    /// The arrangement of each limit that has assignments, and of each source that has some.
    pub shapes: BTreeMap<LimitName, Shape>,
    /// The version of the last change of each of these.
    pub versions: BTreeMap<LimitName, u64>,
    /// Arrangements that are not in force, neither yet nor any more. Their instant is the one since which they are not.
    pub idle: Vec<(LimitName, Shape)>,
}

/// The assignments of a limit at an instant, for people and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllAssigned {
    /// The version of the limit's last change when they were read.
    pub version: u64,
    /// The instant of the reading, in µs of Redis `TIME`.
    pub now: u64,
    /// The arrangement; `None` where nothing was ever assigned.
    pub shape: Option<Shape>,
    /// By key.
    pub keys: BTreeMap<String, Assigned>,
}

/// The arrangements of all limits.
///
/// # Errors
/// Errors of Redis.
pub async fn assignment_index(connection: &mut impl InNamespace) -> RedisResult<AssignmentIndex> {
    let key = connection.namespace().assigned();
    let fields: BTreeMap<String, String> = Cmd::hgetall(key).query_async(connection).await?;
    let mut index = AssignmentIndex::default();
    for (field, value) in &fields {
        match field.as_str() {
            // No limit's name has a space.
            " version" => index.version = value.parse().unwrap_or(0),
            " since" => index.since = value.parse().unwrap_or(0),
            field => {
                let words: Vec<&str> = field.split(' ').collect();
                let name = |text: &str| LimitName::of_assignments(text).ok();
                match words[..] {
                    [text] => index.shapes.extend(name(text).zip(value.parse().ok())),
                    ["", "version", text] => index.versions.extend(name(text).zip(value.parse().ok())),
                    ["", "idle", text, number] => {
                        index.idle.extend(name(text).zip(format!("{number} {value}").parse().ok()));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(index)
}

/// The keys whose assignments have changed after `version`, in order.
///
/// # Errors
/// Errors of Redis.
pub async fn assigned_after(
    connection: &mut impl InNamespace,
    version: u64,
) -> RedisResult<Vec<(LimitName, String)>> {
    let key = connection.namespace().assignment_log();
    let members: Vec<String> =
        Cmd::zrangebyscore(key, format!("({version}"), "+inf").query_async(connection).await?;
    let parse = |member: &String| {
        let (name, key) = member.split_once(' ')?;
        Some((LimitName::of_assignments(name).ok()?, key.to_owned()))
    };
    Ok(members.iter().filter_map(parse).collect())
}

/// The filter of the limit `name`.
///
/// # Errors
/// Errors of Redis.
pub async fn key_filter(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shape: &Shape,
) -> RedisResult<KeyFilter> {
    let key = connection.namespace().assignment_filter(name, shape);
    let mut bytes = Vec::new();
    for first in (0..shape.bits / 8).step_by(CHUNK as usize) {
        let (first, last) = (first as isize, (first + CHUNK - 1) as isize);
        let chunk: Vec<u8> = Cmd::getrange(&key, first, last).query_async(connection).await?;
        let is_last = (chunk.len() as u64) < CHUNK;
        bytes.extend(chunk);
        if is_last {
            break;
        }
    }
    Ok(KeyFilter::new(bytes, shape))
}

/// The assignment of `key`, if it has one.
///
/// # Errors
/// Errors of Redis, and a value that this version cannot read.
pub async fn assigned(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shape: &Shape,
    key: &str,
) -> RedisResult<Option<Assigned>> {
    let hash = connection.namespace().assignment_hash(name, shape, shape.hash_of(key));
    let value: Option<String> = Cmd::hget(hash, key).query_async(connection).await?;
    let parse = |text: String| Assigned::from_text(&text, shape.at).map_err(unreadable);
    Ok(value.map(parse).transpose()?)
}

/// Assigns keys of the limit `name`, at most [`MOST_AT_ONCE`], or takes their assignments back. The change takes force
/// 1.25 s later in all workers at once.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn assign(
    connection: &mut impl InNamespace,
    name: &LimitName,
    changes: &[KeyChange],
) -> RedisResult<Change> {
    let namespace = connection.namespace();
    let mut shape = Shape::for_keys(1, 0);
    for _ in 0..ATTEMPTS {
        let mut call = ASSIGN.key(namespace.assigned());
        call.key(namespace.assignment_log()).key(namespace.assignment_filter(name, &shape));
        call.arg(name.as_str()).arg(shape.to_string()).arg(MOST_LOGGED);
        call.arg(shape.bits_of("").len());
        for (key, assignment) in changes {
            call.key(namespace.assignment_hash(name, &shape, shape.hash_of(key)));
            let until = assignment.and_then(|one| one.until);
            call.arg(key).arg(assignment.map_or("-".to_owned(), |one| one.target.to_string()));
            call.arg(until.map_or_else(String::new, |until| until.to_string()));
            for bit in shape.bits_of(key) {
                call.arg(bit);
            }
        }
        let (done, now, at, changed): (u8, u64, u64, u64) = call.invoke_async(connection).await?;
        if done == 1 {
            return Ok(Change { now, at, changed });
        }
        if let Some(known) = assignment_index(connection).await?.shapes.get(name) {
            shape = *known;
        }
    }
    Err(ParsingError::from("the assignments are arranged anew all the time").into())
}

/// All assignments of the limit `name`.
///
/// # Errors
/// Errors of Redis, and a value that this version cannot read.
pub async fn all_assigned(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<AllAssigned> {
    let namespace = connection.namespace();
    let index = assignment_index(connection).await?;
    let now = super::now(connection).await?;
    let shape = index.shapes.get(name).copied();
    let version = index.versions.get(name).copied().unwrap_or(0);
    let mut all = AllAssigned { version, now, shape, keys: BTreeMap::new() };
    let Some(shape) = shape else { return Ok(all) };
    let hashes: Vec<u64> = (0..shape.hashes).collect();
    for hashes in hashes.chunks(HASHES_AT_ONCE) {
        let mut asked = redis::pipe();
        for hash in hashes {
            asked.hgetall(namespace.assignment_hash(name, &shape, *hash));
        }
        let read: Vec<BTreeMap<String, String>> = asked.query_async(connection).await?;
        for (key, value) in read.into_iter().flatten() {
            all.keys.insert(key, Assigned::from_text(&value, shape.at).map_err(unreadable)?);
        }
    }
    Ok(all)
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> ParsingError {
    ParsingError::from(error.to_string())
}
