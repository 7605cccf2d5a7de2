//! The change of Redis to the rows of a source.

use redis::RedisResult;
use topup_wire::{
    assigned_keys::AssignedKeys,
    scripts::{self, Differences, SourceNews},
};

use super::{Follower, Written};

// === impl Follower ===

impl Follower {
    /// Writes what differs: a few keys one by one, more as a whole, in force at one instant.
    pub(super) async fn write(&mut self, rows: &AssignedKeys, found: Differences) -> RedisResult<Written> {
        if found.different == 0 {
            return Ok(Written::Nothing);
        }
        let set = self.limit.source();
        // The daemon that has the turn next compares everything.
        if !self.turn(&[SourceNews::Changes]).await?.is_own {
            return Ok(Written::Lost);
        }
        if found.different > found.changes.len() as u64 || !found.has_room {
            let held = scripts::all_assigned(&mut self.connection, &set).await?;
            let changed = scripts::replace_assigned(&mut self.connection, &set, &held, rows, |_| {}).await?;
            return Ok(changed.map_or(Written::Lost, |change| Written::Changed(found.different, change.at)));
        }
        let mut at = 0;
        for changes in found.changes.chunks(scripts::MOST_AT_ONCE) {
            at = scripts::assign(&mut self.connection, &set, changes).await?.at;
            if !self.turn(&[]).await?.is_own {
                return Ok(Written::Lost);
            }
        }
        Ok(Written::Changed(found.different, at))
    }
}
