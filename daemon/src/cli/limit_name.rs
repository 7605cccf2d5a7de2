//! Limits by name: the published one, or an error that names the most similar.

use anyhow::anyhow;
use topup_wire::{
    connection::Connection,
    limit::{Key, LimitName},
    namespace::InNamespace,
    reply::PublishedLimit,
    scripts,
};

use super::{
    args::Connect,
    redis::{Failure, ask, connect_checked},
};

/// The least likeness (0 to 1) at which a published limit is suggested for an unknown one.
const LIKENESS: f64 = 0.5;
/// Most limits that an error names.
const MOST_NAMED: usize = 12;

/// A connection, and the published limit `name`. Both names are checked before Redis is asked.
pub(super) async fn open_limit(
    server: &Connect,
    name: &str,
    key: Option<&str>,
) -> Result<(Connection, PublishedLimit), Failure> {
    let name = parse(name, key)?;
    let mut connection = connect_checked(server).await?;
    let limit = find(&mut connection, &name, key).await?;
    Ok((connection, limit))
}

/// The names of a limit and of a key, if they can be such.
pub(super) fn parse(name: &str, key: Option<&str>) -> Result<LimitName, Failure> {
    key.map(Key::new).transpose().map_err(|error| Failure::Usage(error.into()))?;
    name.parse().map_err(|error| Failure::Usage(anyhow::Error::new(error)))
}

/// The published limit `name`, if it may have a bucket of `key`. Without a key, all its buckets may be meant.
async fn find(
    connection: &mut Connection,
    name: &LimitName,
    key: Option<&str>,
) -> Result<PublishedLimit, Failure> {
    let Some(published) = ask(scripts::read_limit(connection, name)).await? else {
        return Err(unknown(connection, name).await);
    };
    if key.is_some() && !published.limit.keyed {
        return Err(Failure::Usage(anyhow!("limit {name} has one bucket for all: leave --key out")));
    }
    Ok(published)
}

/// The error for a limit that is not published. It names the most similar limit, and the published ones.
pub(super) async fn unknown(connection: &mut Connection, name: &LimitName) -> Failure {
    let namespace = connection.namespace();
    let place = if namespace.is_default() { String::new() } else { format!(" in the namespace {namespace}") };
    let published = ask(scripts::published_limits(connection)).await.unwrap_or_default();
    let names: Vec<LimitName> = published.into_keys().filter(|name| name.live() == *name).collect();
    let names: Vec<&str> = names.iter().map(LimitName::as_str).collect();
    Failure::Undecided(anyhow!("no limit {name} is published{place}: {}", advice(name.as_str(), &names)))
}

fn advice(name: &str, published: &[&str]) -> String {
    if published.is_empty() {
        return format!("is topupd running, and is [limit.{name}] in its config?");
    }
    let mut named = published.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
    if published.len() > MOST_NAMED {
        named += &format!(" and {} more", published.len() - MOST_NAMED);
    }
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(known, &name.to_lowercase());
    let scored = published.iter().map(|known| (likeness(known), *known));
    match scored.filter(|(score, _)| *score >= LIKENESS).max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((_, near)) => format!("did you mean {near}? Published are {named}"),
        None => format!("is [limit.{name}] in the config of a daemon? Published are {named}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_limit_is_suggested_and_all_are_named() {
        let published = ["api", "login", "user"];
        assert_eq!(advice("usr", &published), "did you mean user? Published are api, login, user");
        assert_eq!(advice("API", &published), "did you mean api? Published are api, login, user");
        let far = "is [limit.zzz] in the config of a daemon? Published are api, login, user";
        assert_eq!(advice("zzz", &published), far);
        assert_eq!(advice("api", &[]), "is topupd running, and is [limit.api] in its config?");
        let many: Vec<String> = (0..40).map(|i| format!("limit{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(advice("zzz", &many).ends_with("limit11 and 28 more"), "{}", advice("zzz", &many));
    }
}
