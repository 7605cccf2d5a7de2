//! Definitions of limits by code: their begin, their changes and their end.

use std::{sync::LazyLock, time::Duration};

use redis::{RedisResult, Script};

use crate::{
    claims::{Definition, Owner},
    limit::{LimitName, MOST_DEFINED},
    namespace::InNamespace,
};

static DEFINE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("define.lua")));
static FORGET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("forget_defined.lua")));

/// A definition that the caller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldDefinition {
    /// Its end, in µs of Redis `TIME`.
    pub until: u64,
    /// Whether a change of the limit may not be announced: the definition is new, or its last change was cut short.
    pub is_unannounced: bool,
}

/// The outcome of a change of definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefineReply {
    /// Done.
    Held(HeldDefinition),
    /// Another owner has defined the limit.
    Owned(Definition),
    /// A limit of a config has that name. The config is named if one claims the limit.
    OfConfig(Option<Owner>),
    /// There are [`MOST_DEFINED`] definitions.
    TooMany,
    /// The definition of another owner has ended, and its keys are not removed yet.
    Ended,
    /// There is no such definition.
    Unknown,
}

/// Begins the definition of the limit `name` by `owner`, or renews it. It ends after the time `ttl`.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn hold_defined(
    connection: &mut impl InNamespace,
    name: &LimitName,
    owner: &Owner,
    ttl: Duration,
) -> RedisResult<DefineReply> {
    define(connection, "hold", name, owner, ttl).await
}

/// Notes that a change of the limit is `under_way`, or announced.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn change_defined(
    connection: &mut impl InNamespace,
    name: &LimitName,
    owner: &Owner,
    under_way: bool,
) -> RedisResult<DefineReply> {
    define(connection, if under_way { "change" } else { "done" }, name, owner, Duration::ZERO).await
}

/// Lets a definition end now. The keys of the limit stay.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn end_defined(
    connection: &mut impl InNamespace,
    name: &LimitName,
    owner: &Owner,
) -> RedisResult<DefineReply> {
    define(connection, "end", name, owner, Duration::ZERO).await
}

async fn define(
    connection: &mut impl InNamespace,
    operation: &str,
    name: &LimitName,
    owner: &Owner,
    ttl: Duration,
) -> RedisResult<DefineReply> {
    let namespace = connection.namespace();
    let mut call = DEFINE.key(namespace.defined());
    call.key(namespace.ends()).key(namespace.limits()).key(namespace.claims());
    call.arg(operation).arg(name.as_str()).arg(owner.as_str()).arg(ttl.as_micros() as u64).arg(MOST_DEFINED);
    let (outcome, _now, until, owner): (u8, u64, u64, String) = call.invoke_async(connection).await?;
    Ok(match outcome {
        0 | 1 => DefineReply::Held(HeldDefinition { until, is_unannounced: outcome == 1 }),
        2 => DefineReply::Owned(Definition { owner: Owner::published(&owner), until }),
        3 => DefineReply::OfConfig((!owner.is_empty()).then(|| Owner::published(&owner))),
        4 => DefineReply::TooMany,
        5 => DefineReply::Ended,
        _ => DefineReply::Unknown,
    })
}

/// Forgets a definition that has ended, and its entry in the registry. Returns whether it was still there, and had ended.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn forget_defined(connection: &mut impl InNamespace, name: &LimitName) -> RedisResult<bool> {
    let namespace = connection.namespace();
    let mut call = FORGET.key(namespace.defined());
    call.key(namespace.ends()).key(namespace.limits()).arg(name.as_str()).invoke_async(connection).await
}
