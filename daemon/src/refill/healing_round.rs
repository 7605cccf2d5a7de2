//! One round of healing: a look at each shard, and the repairs.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt};
use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    keyspace::ShardKeys,
    limit::{Limit, LimitName},
    namespace::InNamespace,
    scripts::{self, Mended, Record},
};

use super::timeouts::with_timeout;
use crate::publish::{MAX_CONCURRENT, ShardId};

/// The most shards of one round: 20 ms of Redis. More shards take several rounds.
const MOST_SHARDS: usize = 3_000;
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

/// A round that has ended.
pub(super) struct HealingRound {
    pub(super) known: Verified,
    pub(super) repairs: Vec<String>,
    pub(super) error: Option<redis::RedisError>,
    /// Limits that are published with other terms than this daemon's, though no other daemon is alive.
    pub(super) foreign: BTreeSet<LimitName>,
}

/// The look at one shard, and what came of it.
struct Healed {
    id: ShardId,
    verified: Option<Record>,
    suspect: Option<Suspect>,
    /// Entries cleaned, if more are left.
    pub(super) cleaned: Option<u64>,
    repairs: Vec<String>,
    is_mended: bool,
    is_foreign: bool,
}

// === impl HealingRound ===

impl HealingRound {
    pub(super) async fn run(
        &mut self,
        connection: &Connection,
        id: &str,
        now: u64,
        desired: &[Limit],
        own: bool,
    ) -> RedisResult<()> {
        let conn = &mut connection.clone();
        let shared = with_timeout(scripts::mend_shared(conn, id, self.known.generation)).await?;
        self.repairs.extend(shared.repaired);
        // The records are as verified.
        self.known.generation = shared.generation.unwrap_or(self.known.generation);
        if desired.is_empty() || !own && shared.daemons > 1 {
            return Ok(());
        }
        let mut is_mended = self.register(conn, desired).await?;
        let mut shards = Vec::new();
        for limit in desired {
            shards.extend((0..limit.shards.get()).map(|shard| (limit, shard)));
        }
        let begin = if self.known.next < shards.len() { self.known.next } else { 0 };
        let chosen = &shards[begin..shards.len().min(begin + MOST_SHARDS)];
        let mut looks = Vec::with_capacity(chosen.len());
        for (limit, shard) in chosen {
            looks.push(with_timeout(heal(
                connection.clone(),
                limit,
                *shard,
                &self.known,
                shared.daemons,
                now,
            )));
        }
        let looks: Vec<_> = stream::iter(looks).buffer_unordered(MAX_CONCURRENT).collect().await;
        self.known.next = if begin + chosen.len() < shards.len() { begin + chosen.len() } else { 0 };
        for look in looks {
            match look {
                Ok(healed) => is_mended |= self.record(healed),
                Err(error) => self.error = Some(error),
            }
        }
        if is_mended {
            // Workers that have read a corrupt record read it again. The other records are as verified.
            self.known.generation = scripts::announce(conn).await?;
        }
        Ok(())
    }

    /// Registers limits that are missing in the registry. Returns whether there were any.
    async fn register(&mut self, conn: &mut Connection, desired: &[Limit]) -> RedisResult<bool> {
        let registered = with_timeout(scripts::published_limits(conn)).await?;
        let before = self.repairs.len();
        for limit in desired {
            if registered.get(&limit.name).is_none_or(|shards| shards.get() < limit.shards.get()) {
                scripts::register(conn, &limit.name, limit.shards).await?;
                self.repairs.push(format!("limit {}: it was not registered", limit.name));
            }
        }
        Ok(self.repairs.len() > before)
    }

    /// Takes the result of one look over. Returns whether its record was mended.
    fn record(&mut self, healed: Healed) -> bool {
        let Healed { id, verified, suspect, cleaned, repairs, is_mended, is_foreign } = healed;
        match verified {
            Some(record) => drop(self.known.verified.insert(id, record)),
            None => drop(self.known.verified.remove(&id)),
        }
        match suspect {
            Some(suspect) => drop(self.known.suspects.insert(id, suspect)),
            None => drop(self.known.suspects.remove(&id)),
        }
        match cleaned {
            Some(cleaned) => drop(self.known.cleaned.insert(id, cleaned)),
            None => drop(self.known.cleaned.remove(&id)),
        }
        self.repairs.extend(repairs);
        if is_foreign {
            self.foreign.insert(id.0);
        }
        is_mended
    }
}

/// Looks at one shard of a limit that should be published as `desired`, and repairs it.
async fn heal(
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
