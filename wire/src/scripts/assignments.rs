//! Assignments of keys to plans: changes, look-ups, and what workers read of them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
    time::Duration,
};

use redis::{Cmd, ParsingError, RedisResult, Script};
use tokio::time::sleep;

use crate::{
    assigned_keys::AssignedKeys,
    assignments::{KeyFilter, Shape},
    constants::{PLANS_AHEAD, with_constants},
    keyspace::ShardKeys,
    limit::{Assigned, Assignment, LimitName, Past},
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

/// The assignments of `key` of the limit `name` by hand and by its source, in the arrangements that may have it.
///
/// # Errors
/// Errors of Redis, and a value that this version cannot read.
pub async fn assigned_outside(
    connection: &mut impl InNamespace,
    name: &LimitName,
    shapes: &[Option<Shape>; 2],
    key: &str,
) -> RedisResult<[Option<Assigned>; 2]> {
    let mut found = [None, None];
    for ((set, shape), found) in [*name, name.source()].iter().zip(shapes).zip(&mut found) {
        if let Some(shape) = shape {
            *found = assigned(connection, set, shape, key).await?;
        }
    }
    Ok(found)
}

async fn assigned(
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
/// 1.25 s later in all workers at once. If an earlier change of a key has not taken force yet, it waits for that.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn assign(
    connection: &mut impl InNamespace,
    name: &LimitName,
    changes: &[KeyChange],
) -> RedisResult<Change> {
    loop {
        match try_assign(connection, name, changes).await? {
            Ok(change) => return Ok(change),
            Err(wait) => sleep(wait).await,
        }
    }
}

/// The same, or the time after which it can be done.
///
/// # Errors
/// As [`assign`].
pub async fn try_assign(
    connection: &mut impl InNamespace,
    name: &LimitName,
    changes: &[KeyChange],
) -> RedisResult<Result<Change, Duration>> {
    let namespace = connection.namespace();
    let mut shape = Shape::for_keys(1, 0);
    let matters_for = plans_fill(connection, name).await?;
    for _ in 0..ATTEMPTS {
        let mut call = ASSIGN.key(namespace.assigned());
        call.key(namespace.assignment_log()).key(namespace.assignment_filter(name, &shape));
        call.arg(name.as_str()).arg(shape.to_string()).arg(MOST_LOGGED);
        call.arg(shape.bits_of("").len()).arg(matters_for);
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
        match done {
            1 => return Ok(Ok(Change { now, at, changed })),
            2 => return Ok(Err(Duration::from_micros(at.saturating_sub(now)))),
            _ => {}
        }
        if let Some(known) = assignment_index(connection).await?.shapes.get(name) {
            shape = *known;
        }
    }
    Err(ParsingError::from("the assignments are arranged anew all the time").into())
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
    let since = now.saturating_sub(plans_fill(connection, name).await?);
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

/// µs for which assignments before matter for the tokens of a key of the limit `name`, or of that of a source.
async fn plans_fill(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<u64> {
    let record = ShardKeys::new(connection.namespace(), &name.live(), 0).record;
    let fill: Option<String> = Cmd::hget(record, "plans_fill").query_async(connection).await?;
    Ok(fill.and_then(|fill| fill.parse().ok()).unwrap_or(0))
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> ParsingError {
    ParsingError::from(error.to_string())
}
