//! Leftovers of a run: open descriptors, and keys of buckets that are full.

use tokio::time::timeout;
use topup::Client;
use topup_tests::{SOON, eventually};

use crate::{limits::Limit, world::World};

/// Programs with more open descriptors `now` than any process of theirs had `before`.
pub(super) fn still_open(before: &[(String, usize)], now: &[(String, usize)]) -> Vec<String> {
    let more = |(program, count): &(String, usize)| {
        let most = before.iter().filter(|(name, _)| name == program).map(|(_, count)| *count).max()?;
        // A worker opens some connections when it first needs them.
        (*count > most + 1).then(|| format!("descriptors: {program} had {most} open, and has {count} now"))
    };
    now.iter().filter_map(more).collect()
}

/// Law 4: when all buckets are full again, no key of a bucket is left.
pub(super) async fn law_4(
    world: &World,
    auditor: &Client,
    buckets: &[(&Limit, Option<&str>)],
) -> Vec<String> {
    for (limit, _) in buckets.iter().filter(|(limit, _)| limit.has_ledger()) {
        if let Err(error) = auditor.limit(limit.name).reset().await {
            return vec![format!("reset of {}: {error}", limit.name)];
        }
    }
    let left = async || {
        let keys: Vec<String> = world.redis.ask(&["KEYS", "*"]).await;
        let of_limits = ["}:limit", "}:counts"];
        let is_shared = |key: &String| {
            key.starts_with("topup:{topup}:") || of_limits.iter().any(|end| key.ends_with(end))
        };
        let left: Vec<String> = keys.into_iter().filter(|key| !is_shared(key)).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    };
    match timeout(SOON / 2, eventually(SOON, left)).await {
        Ok(()) => Vec::new(),
        Err(_) => vec![format!("law 4: keys are left: {:?}", left().await)],
    }
}
