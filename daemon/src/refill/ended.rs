//! The ends of the engine's work: of a round of publishing, a round of healing, and a pass over a shard.

use super::{
    engine::Engine, healing_round::HealingRound, passes::EndedPass, publication::EndedRound,
    timeouts::HEARTBEAT_LIFE,
};
use crate::clock::RedisTime;

// === impl Engine ===

impl Engine {
    pub(super) fn round_ended(&mut self, ended: EndedRound) {
        let notes = self.publication.notes().filter(|note| note.is_problem());
        let notes = notes.map(ToString::to_string).collect();
        self.status.send_if_modified(|status| {
            let changed = status.notes != notes;
            status.notes = notes;
            changed
        });
        if ended.published {
            self.at_rest.add(&self.connection, ended.changed);
            self.reading = Some(self.read_published(0));
        }
    }

    pub(super) fn healing_ended(&mut self, mut round: HealingRound) {
        self.healing.ended(&mut round);
        let repaired = self.healing.repaired();
        self.status.send_modify(|status| status.repaired = repaired);
        for name in &round.foreign {
            tracing::warn!(
                "limit {name} is published with other terms, by no daemon alive: publishing again"
            );
        }
        if !round.foreign.is_empty() {
            self.publication.publish_again();
        }
    }

    pub(super) fn pass_ended(&mut self, ended: EndedPass) {
        let now = self.time.map_or(0, RedisTime::now);
        // Redis was away. Its answers to passes may come before its answer to a heartbeat.
        if !self.redis_health.is_up() || self.time.is_some_and(|time| time.age() > HEARTBEAT_LIFE) {
            self.passes.excuse(now);
        }
        let lag = self.passes.ended(ended, now);
        let ready = self.passes.all_seen() && self.may_write();
        let credited = self.passes.credited();
        self.status.send_modify(|status| {
            (status.credited, status.lag) = (credited, lag);
            status.ready |= ready;
        });
    }
}
