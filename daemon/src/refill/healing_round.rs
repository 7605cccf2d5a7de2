//! One round of healing: a look at each shard, and the repairs.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt};
use redis::RedisResult;
use topup_wire::{
    connection::Connection,
    limit::{Limit, LimitName},
    scripts,
};

use super::{
    heal_shard::{Healed, Verified, heal},
    timeouts::with_timeout,
};
use crate::publish::MAX_CONCURRENT;

/// The most shards of one round: 20 ms of Redis. More shards take several rounds.
const MOST_SHARDS: usize = 3_000;

/// A round that has ended.
pub(super) struct HealingRound {
    pub(super) known: Verified,
    pub(super) repairs: Vec<String>,
    pub(super) error: Option<redis::RedisError>,
    /// Limits that are published with other terms than this daemon's, though no other daemon is alive.
    pub(super) foreign: BTreeSet<LimitName>,
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
