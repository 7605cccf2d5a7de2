//! Sources of assignments: which daemon reads the source of a limit, and what came of it.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::{Cmd, RedisResult, Script};

use crate::{limit::LimitName, namespace::InNamespace};

static SOURCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("source.lua")));

/// The answer to a daemon that asks for its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTurn {
    /// Whether this daemon reads the source, and no other.
    pub is_own: bool,
    /// The instant of the answer, in µs of Redis `TIME`.
    pub now: u64,
    /// The hash of the rows that Redis has; empty unless it surely has all of them.
    pub applied: String,
}

/// News of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceNews<'a> {
    /// The source as people know it.
    Name(&'a str),
    /// All that the config says of it, without user and password.
    Settings(&'a str),
    /// It was read without a mistake at this instant, in µs of Redis `TIME`, and has so many rows.
    Read(u64, usize),
    /// Redis has all rows, of this hash.
    Applied(&'a str),
    /// The rows in Redis are about to change.
    Changes,
    /// It cannot be used.
    Problem(&'a str),
    /// Another daemon may take the turn.
    GivesUp,
}

/// A source as the daemon that reads it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceStatus {
    /// The id of that daemon; empty while none does.
    pub daemon: String,
    /// The source as people know it.
    pub name: String,
    /// All that the config says of it, without user and password; empty if an earlier version reads it.
    pub settings: String,
    /// The instant at which it was last read without a mistake, in µs of Redis `TIME`.
    pub read: Option<u64>,
    /// Its rows then.
    pub rows: u64,
    /// The reason why it cannot be used, and since when.
    pub problem: Option<(String, u64)>,
}

/// Asks for the turn of the daemon `id` at the source of the limit `name`. Tells `news` if it has the turn.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn source_turn(
    connection: &mut impl InNamespace,
    id: &str,
    name: &LimitName,
    news: &[SourceNews<'_>],
) -> RedisResult<SourceTurn> {
    let namespace = connection.namespace();
    let mut call = SOURCE.key(namespace.daemons());
    call.key(namespace.sources()).arg(id).arg(name.as_str());
    let pairs = news.iter().flat_map(|news| match news {
        SourceNews::Name(name) => vec![("name", (*name).to_owned())],
        SourceNews::Settings(settings) => vec![("settings", (*settings).to_owned())],
        SourceNews::Read(at, rows) => {
            vec![("read", at.to_string()), ("rows", rows.to_string()), ("problem", String::new())]
        }
        SourceNews::Applied(hash) => vec![("applied", (*hash).to_owned())],
        SourceNews::Changes => vec![("applied", String::new())],
        SourceNews::Problem(problem) => vec![("problem", (*problem).to_owned())],
        SourceNews::GivesUp => vec![("daemon", String::new())],
    });
    for (field, value) in pairs {
        call.arg(field).arg(value);
    }
    let (own, now, applied): (u8, u64, String) = call.invoke_async(connection).await?;
    Ok(SourceTurn { is_own: own == 1, now, applied })
}

/// Another daemon has taken the turn while this one wrote. The rows in Redis are to be compared again.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn doubt_source(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<()> {
    let sources = connection.namespace().sources();
    Cmd::hdel(sources, format!("{name} applied")).query_async(connection).await
}

/// All sources that daemons have told of, by limit.
///
/// # Errors
/// Errors of Redis.
pub async fn source_statuses(
    connection: &mut impl InNamespace,
) -> RedisResult<BTreeMap<LimitName, SourceStatus>> {
    let sources = connection.namespace().sources();
    let fields: BTreeMap<String, String> = Cmd::hgetall(sources).query_async(connection).await?;
    let mut told: BTreeMap<LimitName, SourceStatus> = BTreeMap::new();
    for (field, value) in &fields {
        let Some((name, field)) = field.split_once(' ') else { continue };
        let Ok(name) = name.parse::<LimitName>() else { continue };
        let (status, number) = (told.entry(name).or_default(), || value.parse::<u64>().ok());
        match field {
            "daemon" => status.daemon.clone_from(value),
            "name" => status.name.clone_from(value),
            "settings" => status.settings.clone_from(value),
            "read" => status.read = number(),
            "rows" => status.rows = number().unwrap_or(0),
            "problem" => status.problem.get_or_insert_default().0.clone_from(value),
            "since" => status.problem.get_or_insert_default().1 = number().unwrap_or(0),
            _ => {}
        }
    }
    Ok(told)
}

/// Forgets the source of the limit `name`.
///
/// # Errors
/// Errors of Redis. May be called again.
pub async fn forget_source(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<()> {
    let fields = ["daemon", "name", "settings", "read", "rows", "applied", "problem", "since"];
    let fields: Vec<String> = fields.iter().map(|field| format!("{name} {field}")).collect();
    Cmd::hdel(connection.namespace().sources(), fields).query_async(connection).await
}
