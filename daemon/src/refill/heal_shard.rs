//! One shard in a round of healing: it is looked at, and repaired if it differs again.

use std::collections::BTreeMap;

use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::Limit,
    namespace::InNamespace,
    scripts::{self, Mended, Record},
};

use crate::publish::ShardId;

/// The most calls per round and shard that clean a due index: 10,000 entries of one kind, and 30 ms of Redis.
const MOST_CLEANS: usize = 20;
/// Looks at a record that another daemon seems to publish, before it is repaired: 10 s.
const PATIENT_LOOKS: u32 = 20;

/// The knowledge that rounds hand on.
#[derive(Clone, Default)]
pub(super) struct Verified {
    /// The generation under which the records were verified.
    pub(super) generation: u64,
    pub(super) verified: BTreeMap<ShardId, Record>,
    /// Shards that differed at the last look.
    pub(super) suspects: BTreeMap<ShardId, Suspect>,
    /// Entries of due indexes that were cleaned so far, where more are left.
    pub(super) cleaned: BTreeMap<ShardId, u64>,
    /// The shard with which the next round begins.
    pub(super) next: usize,
}

/// A shard that differs: its record, and how many looks have found that.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Suspect {
    record: Option<Record>,
    looks: u32,
}

/// The look at one shard, and what came of it.
pub(super) struct Healed {
    pub(super) id: ShardId,
    pub(super) verified: Option<Record>,
    pub(super) suspect: Option<Suspect>,
    /// Entries cleaned, if more are left.
    pub(super) cleaned: Option<u64>,
    pub(super) repairs: Vec<String>,
    pub(super) is_mended: bool,
    pub(super) is_foreign: bool,
}

/// Looks at one shard of a limit that should be published as `desired`, and repairs it.
pub(super) async fn heal(
    mut connection: Connection,
    desired: &Limit,
    shard: u16,
    known: &Verified,
    daemons: u64,
    now: u64,
) -> RedisResult<Healed> {
    let (conn, id) = (&mut connection, (desired.name, shard));
    let keys = ShardKeys::new(conn.namespace(), &desired.name, shard);
    let look = scripts::look_at_shard(conn, &keys, desired, now).await?;
    let (verified, suspect) = (known.verified.get(&id), known.suspects.get(&id));
    let mut healed = Healed {
        id,
        verified: verified.cloned(),
        suspect: None,
        cleaned: None,
        repairs: Vec::new(),
        is_mended: false,
        is_foreign: false,
    };
    let is_right = look.record.is_some() && look.record.as_ref() == verified && look.has_sound_indexes;
    let looks = suspect.filter(|suspect| suspect.record == look.record).map_or(0, |suspect| suspect.looks);
    if !is_right && looks < looks_needed(verified, look.record.as_ref(), daemons) {
        healed.suspect = Some(Suspect { record: look.record, looks: looks + 1 });
        return Ok(healed);
    }
    // A worker under least rights cannot pack the terms again once a raised bucket has grown.
    let is_unpacked = is_right
        && !desired.algorithm.has_windows()
        && !desired.algorithm.has_permits()
        && !desired.algorithm.has_parts()
        && look.record.as_ref().is_some_and(Record::is_unpacked);
    if !is_right || is_unpacked {
        let record = look.record.as_ref();
        let published = verified.or(record).and_then(|record| record.limit(&desired.name).ok());
        let limit = published.as_ref().unwrap_or(desired);
        if limit != desired && daemons <= 1 {
            healed.is_foreign = true;
            return Ok(healed);
        }
        match scripts::mend(conn, &keys, limit, record, verified).await? {
            Mended::Sound(record) => healed.verified = Some(record).filter(|record| !record.is_frozen()),
            Mended::Repaired(record, _) if is_unpacked => healed.verified = Some(record),
            Mended::Repaired(record, what) => {
                healed.repairs.push(format!("limit {}, shard {shard}: {what}", desired.name));
                (healed.verified, healed.is_mended) = (Some(record), true);
            }
            Mended::Outdated => return Ok(healed),
        }
    }
    let (mut odd, mut cleaned) = (look.odd_members, known.cleaned.get(&id).copied().unwrap_or(0));
    for _ in 0..MOST_CLEANS {
        if odd.is_empty()
            || scripts::clean(conn, &keys, desired.keyed, &odd).await.map(|more| cleaned += more).is_err()
        {
            break;
        }
        // Without an answer the rest is left for the next look, and what was cleaned stays known.
        let Ok(look) = scripts::look_at_shard(conn, &keys, desired, now).await else { break };
        odd = look.odd_members;
    }
    if !odd.is_empty() {
        healed.cleaned = Some(cleaned);
    } else if cleaned > 0 {
        let name = desired.name;
        healed
            .repairs
            .push(format!("limit {name}, shard {shard}: due index, {cleaned} foreign or misplaced"));
    }
    Ok(healed)
}

/// The looks that must have found a difference before it is repaired.
fn looks_needed(verified: Option<&Record>, record: Option<&Record>, daemons: u64) -> u32 {
    match (verified, record) {
        // Not looked at since the last publication.
        (None, Some(_)) => 0,
        (Some(verified), Some(record)) if daemons > 1 && record.generation() > verified.generation() => {
            PATIENT_LOOKS
        }
        _ => 1,
    }
}
