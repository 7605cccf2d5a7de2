//! Pauses: limits and keys of which no tokens are taken until an instant of Redis `TIME`.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, RedisResult, Script};

use crate::{limit::LimitName, namespace::InNamespace};

static PAUSE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("pause.lua")));

/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);
/// Most pauses at once. Each worker reads them all after a change: some 50 KB.
pub const MOST_PAUSES: usize = 1_000;
/// Most pauses after a penalty has begun one.
pub const MOST_BLOCKS: usize = 900;

/// All pauses of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Rises with each change, as control polls tell it; 0 while nothing is paused.
    pub version: u64,
    /// The pauses. The first to end comes first, and some may be over.
    pub pauses: Vec<Pause>,
}

/// A pause of a limit, or of one of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The limit.
    pub limit: LimitName,
    /// The key; `None` for all buckets of the limit.
    pub key: Option<String>,
    /// The end of the pause, in µs of Redis `TIME`.
    pub until: u64,
}

/// The reply of `pause.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseReply {
    /// Time until the pause ends; 0 without one. `None` if [`MOST_PAUSES`] others left no room for it.
    pub left: Option<Duration>,
    /// Whether any pause began, grew or ended.
    pub changed: bool,
}

/// Pauses the limit `name`, or its `key`, for the time `pause` or [`LONGEST_PAUSE`]. A longer pause stays as it is.
///
/// The limit need not be published: callers check that before.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn pause(
    connection: &mut impl InNamespace,
    name: &LimitName,
    key: Option<&str>,
    pause: Duration,
) -> RedisResult<PauseReply> {
    change(connection, "pause", name, key, pause.min(LONGEST_PAUSE), MOST_PAUSES).await
}

/// Blocks a key of the limit `name` by a pause for the time `pause`. Leaves room for the pauses of operators: there are at
/// most [`MOST_BLOCKS`] pauses afterwards.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn block(
    connection: &mut impl InNamespace,
    name: &LimitName,
    key: &str,
    pause: Duration,
) -> RedisResult<PauseReply> {
    change(connection, "pause", name, Some(key), pause.min(LONGEST_PAUSE), MOST_BLOCKS).await
}

/// Ends the pause of the limit `name`, or of its `key`. The pauses of other keys stay.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn resume(
    connection: &mut impl InNamespace,
    name: &LimitName,
    key: Option<&str>,
) -> RedisResult<PauseReply> {
    change(connection, "resume", name, key, Duration::ZERO, MOST_PAUSES).await
}

/// Ends all pauses of the limit `name`, those of its keys, too.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn resume_all(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<PauseReply> {
    change(connection, "clear", name, None, Duration::ZERO, MOST_PAUSES).await
}

/// All pauses.
///
/// # Errors
/// Errors of Redis.
pub async fn paused(connection: &mut impl InNamespace) -> RedisResult<Pauses> {
    let key = connection.namespace().pauses();
    // One more than there can be: the version.
    let list = Cmd::zrange_withscores(key, 0, MOST_PAUSES as isize);
    let scored: Vec<(Vec<u8>, f64)> = list.query_async(connection).await?;
    let mut paused = Pauses::default();
    for (member, score) in scored {
        // A score is whole µs below 2^53. The cast of any other number saturates.
        let score = score as u64;
        if member.is_empty() {
            paused.version = score;
        }
        paused.pauses.extend(Pause::read(member, score));
    }
    Ok(paused)
}

// === impl Pause ===

impl Pause {
    /// The pause of `member`; `None` for the version, and for what no script has written.
    fn read(member: Vec<u8>, until: u64) -> Option<Self> {
        let member = String::from_utf8(member).ok()?;
        let (limit, key) = match member.split_once(':') {
            Some((limit, key)) => (limit, Some(key.to_owned())),
            None => (member.as_str(), None),
        };
        Some(Self { limit: limit.parse().ok()?, key, until })
    }
}

async fn change(
    connection: &mut impl InNamespace,
    operation: &str,
    name: &LimitName,
    key: Option<&str>,
    time: Duration,
    most: usize,
) -> RedisResult<PauseReply> {
    // No name of a limit has a colon.
    let member = key.map_or_else(|| name.to_string(), |key| format!("{name}:{key}"));
    let mut call = PAUSE.key(connection.namespace().pauses());
    call.arg(operation).arg(member).arg(time.as_micros() as u64).arg(most);
    let (now, until, changed): (i64, i64, u8) = call.invoke_async(connection).await?;
    let left = (until >= 0).then(|| Duration::from_micros(until.saturating_sub(now).max(0) as u64));
    Ok(PauseReply { left, changed: changed == 1 })
}
