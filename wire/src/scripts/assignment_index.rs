//! The index of all assignments, which every worker reads, and the log of their last changes.

use std::collections::BTreeMap;

use redis::{Cmd, RedisResult};

use crate::{assignments::Shape, keyspace::ShardKeys, limit::LimitName, namespace::InNamespace};

/// Attempts while others change the arrangement.
pub(super) const ATTEMPTS: usize = 5;

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

/// µs for which assignments before matter for the tokens of a key of the limit `name`, or of that of a source. A change
/// matters while the buckets fill, and may have come at the end of a time without a bucket that was as long.
pub(super) async fn matters_for(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<u64> {
    let record = ShardKeys::new(connection.namespace(), &name.live(), 0).record;
    let fill: Option<String> = Cmd::hget(record, "plans_fill").query_async(connection).await?;
    let fill: u64 = fill.and_then(|fill| fill.parse().ok()).unwrap_or(0);
    Ok(fill.saturating_mul(2))
}
