//! The read of the published limits, and the shards that it lets the engine refill.

use redis::RedisResult;

use super::{
    engine::Engine,
    in_flight::InFlight,
    published::{PublishedShards, read_published},
};

// === impl Engine ===

impl Engine {
    /// Reads the limits that have changed since the generation `known`, or all of them.
    pub(super) fn read_published(&self, known: u64) -> InFlight<RedisResult<PublishedShards>> {
        Box::pin(read_published(self.connection.clone(), known))
    }

    /// Refills the shards that were read. After an error, the next heartbeat begins another read.
    pub(super) fn reading_ended(&mut self, read: RedisResult<PublishedShards>) {
        match read {
            Ok(PublishedShards { generation, changed: None, registered, mut limits, defined, shards }) => {
                self.swept.send_replace(limits.clone());
                // A program publishes the limits that it defines.
                limits.retain(|limit| !defined.contains(&limit.name));
                self.healing.note_published(&registered, limits);
                self.passes.replace(shards, self.tick);
                self.note_read(generation);
            }
            Ok(PublishedShards { generation, changed: Some(changed), limits, shards, .. }) => {
                self.swept.send_modify(|swept| {
                    swept.retain(|limit| !changed.contains(&limit.name));
                    swept.extend(limits);
                });
                self.healing.note_generation(self.status.borrow().generation, generation, &changed);
                self.passes.change(&changed, shards);
                self.note_read(generation);
            }
            Err(error) if self.read_failure_log.should_log() => {
                tracing::warn!("the published limits could not be read ({error}); trying again");
            }
            Err(_) => {}
        }
    }

    /// Records that the shards are those of this generation.
    fn note_read(&mut self, generation: u64) {
        let (shards, ready) = (self.passes.shards(), self.passes.all_seen());
        self.status.send_modify(|status| {
            (status.generation, status.shards) = (generation, shards);
            status.ready |= ready;
        });
    }
}
