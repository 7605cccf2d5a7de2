//! Frozen shards: changes of terms that workers have been told of, and when each may be made.

use std::collections::{BTreeMap, BTreeSet};

use topup_wire::{limit::LimitName, scripts::FREEZE};

use crate::{
    clock::Moment,
    publish::{FrozenShards, ShardId},
};

/// The instant from which published terms apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppliesFrom {
    /// The instant of publication.
    Now,
    /// The last boundary of the schedule.
    Boundary,
}

/// All frozen shards.
#[derive(Debug, Default)]
pub(super) struct Freezes(BTreeMap<ShardId, Freeze>);

#[derive(Clone, Copy, Debug)]
struct Freeze {
    /// The latest instant at which the freeze may have begun, in µs of Redis `TIME`.
    frozen: u64,
    /// The instant by which workers had been told.
    announced: Moment,
    /// `None` until the next boundary, if the change was announced ahead of it.
    applies: Option<AppliesFrom>,
}

// === impl Freezes ===

impl Freezes {
    /// Whether no shard is frozen.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The shards whose freeze all workers know of.
    pub(super) fn known(&self) -> FrozenShards {
        let known = self.0.iter().filter(|(_, freeze)| freeze.is_known());
        known.map(|(shard, freeze)| (*shard, freeze.frozen)).collect()
    }

    /// The limits whose frozen change may be made now and applies from this instant.
    pub(super) fn due(&self, applies: AppliesFrom) -> BTreeSet<LimitName> {
        let due = self.0.iter().filter(|(_, freeze)| freeze.is_known() && freeze.applies == Some(applies));
        due.map(|((name, _), _)| *name).collect()
    }

    /// Records the shards of the last round that were `frozen` and announced just now. `known` are those that workers
    /// knew when the round began.
    pub(super) fn record(
        &mut self,
        frozen: FrozenShards,
        known: &FrozenShards,
        applies: Option<AppliesFrom>,
    ) {
        let announced = Moment::now();
        for (shard, frozen) in frozen {
            let freeze = self.0.entry(shard).or_insert(Freeze { frozen, announced, applies });
            freeze.applies = applies;
            // The round did not make this known change: another daemon has published meanwhile, and the freeze began
            // anew.
            if known.contains_key(&shard) {
                *freeze = Freeze { frozen, announced, applies };
            }
        }
    }

    /// Keeps the shards that `which` selects.
    pub(super) fn retain(&mut self, which: impl Fn(&ShardId) -> bool) {
        self.0.retain(|shard, _| which(shard));
    }
}

// === impl Freeze ===

impl Freeze {
    fn is_known(&self) -> bool {
        self.announced.elapsed() >= FREEZE
    }
}
