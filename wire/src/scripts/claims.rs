//! Claims of configs to limits.

use std::{collections::BTreeMap, sync::LazyLock};

use redis::{FromRedisValue, RedisResult, Script};

use super::{daemons::daemons, definitions::owner_of, registry::published_limits};
use crate::{
    claims::{Claim, Declaration, DeclaredLimit, Definition, Fingerprint, Owner, Ownership},
    least_rights::reading_script,
    limit::LimitName,
    namespace::InNamespace,
};

static OWNERSHIP: LazyLock<Script> = LazyLock::new(|| reading_script(include_str!("ownership.lua")));
static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("claim.lua")));

/// A change of claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimChange {
    /// Claims that end.
    pub release: Vec<(LimitName, Owner)>,
    /// Configs without a claim and without a live daemon.
    pub forget: Vec<Owner>,
    /// Claims that begin or change.
    pub claim: Vec<(LimitName, Owner, Claim)>,
    /// The daemon that claims, with the hash and the limits of its config.
    pub declare: Option<(String, Fingerprint, Declaration)>,
}

/// The fields of a hash that are text. A claim is.
struct Fields(BTreeMap<String, String>);

/// The claims, and the configs of live daemons. Claims are read first: a daemon that is not in the list yet will change
/// their version.
///
/// # Errors
/// Errors of Redis.
pub async fn ownership(connection: &mut impl InNamespace) -> RedisResult<Ownership> {
    let namespace = connection.namespace();
    let mut call = OWNERSHIP.key(namespace.claims());
    call.key(namespace.owners()).key(namespace.defined()).key(namespace.ends());
    let (now, Fields(mut claims), Fields(alive), Fields(defined), Fields(ends)): (u64, _, _, _, _) =
        call.invoke_async(connection).await?;
    let version = claims.remove(VERSION).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let mut read = Ownership { now, version: version.unwrap_or_default(), ..Ownership::default() };
    for (field, value) in claims {
        if let Some((name, owner, claim)) = parse_claim(&field, &value) {
            read.claims.entry(name).or_default().insert(owner, claim);
        }
    }
    let instants =
        alive.into_iter().filter_map(|(owner, at)| Some((Owner::published(&owner), at.parse().ok()?)));
    read.last_alive = instants.collect();
    let definition = |(name, value): (String, String)| {
        let until = ends.get(&name).and_then(|end| end.parse::<f64>().ok()).map_or(0, |end| end as u64);
        Some((name.parse().ok()?, Definition { owner: owner_of(&value), until }))
    };
    read.defined = defined.into_iter().filter_map(definition).collect();
    let daemons = daemons(connection).await?;
    read.alive = daemons.iter().map(|daemon| daemon.health.owner.clone()).collect();
    read.daemons = daemons.into_iter().filter_map(|daemon| Some((daemon.id, daemon.declaration?))).collect();
    read.registered = published_limits(connection).await?.into_keys().collect();
    Ok(read)
}

/// Changes the claims, if their version is still `version`. Returns whether it was.
///
/// # Errors
/// Errors of Redis. May be sent again: the second call finds another version.
pub async fn claim(
    connection: &mut impl InNamespace,
    version: &str,
    change: &ClaimChange,
) -> RedisResult<bool> {
    let (mut call, namespace) = (CLAIM.prepare_invoke(), connection.namespace());
    call.key(namespace.claims()).key(namespace.owners()).key(namespace.defined());
    if let Some((id, ..)) = &change.declare {
        call.key(namespace.daemon_details(id));
    }
    call.arg(version).arg(change.release.len()).arg(change.forget.len()).arg(change.claim.len());
    for (name, owner) in &change.release {
        call.arg(field(name, owner));
    }
    for owner in &change.forget {
        call.arg(owner.as_str());
    }
    for (name, owner, claim) in &change.claim {
        call.arg(field(name, owner)).arg(format!("{} {}", claim.fingerprint, claim.loaded));
    }
    if let Some((_, config, declared)) = &change.declare {
        call.arg("owner").arg(declared.owner.as_str()).arg("loaded").arg(declared.loaded);
        call.arg("limits").arg(limits_text(&declared.limits)).arg("declared").arg(config.to_string());
    }
    call.invoke_async(connection).await
}

/// The field that counts the changes of the claims. All others have a space.
const VERSION: &str = "version";

/// The field of a claim: a limit's name has no space.
fn field(name: &LimitName, owner: &Owner) -> String {
    format!("{name} {}", owner.as_str())
}

fn parse_claim(field: &str, value: &str) -> Option<(LimitName, Owner, Claim)> {
    let (name, owner) = field.split_once(' ')?;
    let (fingerprint, loaded) = value.split_once(' ')?;
    let claim = Claim { fingerprint: fingerprint.parse().ok()?, loaded: loaded.parse().ok()? };
    Some((name.parse().ok()?, Owner::published(owner), claim))
}

fn limits_text(limits: &BTreeMap<LimitName, DeclaredLimit>) -> String {
    let word = |(name, limit): (&LimitName, &DeclaredLimit)| {
        format!("{name}{}{}", if limit.held { '=' } else { '!' }, limit.fingerprint)
    };
    limits.iter().map(word).collect::<Vec<_>>().join(" ")
}

// === impl Fields ===

impl FromRedisValue for Fields {
    fn from_redis_value(value: redis::Value) -> Result<Self, redis::ParsingError> {
        let words: Vec<Vec<u8>> = redis::from_redis_value(value)?;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let pairs = words.chunks_exact(2).filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?)));
        Ok(Self(pairs.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::daemons::declaration, *};

    #[test]
    fn what_is_written_is_read() {
        let owner = Owner::of_file(std::path::Path::new("/srv/two words/config.toml"));
        let (name, claim) = ("api".parse().unwrap(), Claim { fingerprint: Fingerprint::of("x"), loaded: 7 });
        let value = format!("{} {}", claim.fingerprint, claim.loaded);
        assert_eq!(parse_claim(&field(&name, &owner), &value), Some((name, owner.clone(), claim)));
        let limit = |held| DeclaredLimit { fingerprint: Fingerprint::of("y"), held };
        let limits: BTreeMap<_, _> = [(name, limit(true)), ("a.b-c_".parse().unwrap(), limit(false))].into();
        let details = [("owner", owner.as_str()), ("loaded", "9"), ("limits", &limits_text(&limits))];
        let details = details.map(|(field, value)| (field.to_owned(), value.to_owned())).into();
        assert_eq!(declaration(&details), Some(Declaration { owner, loaded: 9, limits }));
    }

    #[test]
    fn junk_is_no_claim() {
        for (field, value) in [
            ("api", "0 1"),
            ("api x", "0"),
            ("api x", "g 1"),
            ("api x", "0 -1"),
            ("a~lazy x", "0 1"),
            ("", ""),
        ] {
            assert_eq!(parse_claim(field, value), None, "{field} {value}");
        }
    }
}
