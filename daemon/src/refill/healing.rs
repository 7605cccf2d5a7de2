//! Healing: compares what is published with what it should be, every few seconds, and repairs what differs.
//!
//! A record is right if scripts have written it: [`mend`](scripts::mend) decides that once after each publication, and
//! the daemon keeps the record. From then on a look compares the two. A publication of another daemon changes records
//! before it announces them, so a difference is repaired only if a second look finds it too.

use std::{collections::BTreeSet, time::Duration};

use topup_wire::{
    connection::Connection,
    limit::{Limit, LimitName},
};

use super::{
    heal_shard::Verified,
    healing_round::HealingRound,
    in_flight::{InFlight, finished},
};
use crate::{clock::Moment, text::counted};

/// The time between two rounds. A look at a shard costs Redis 7 µs, so 1,000 shards cost 0.5 % of it.
const INTERVAL: Duration = Duration::from_millis(1_500);
/// The same after a round that found a difference.
const SECOND_LOOK: Duration = Duration::from_millis(500);
/// The same while entries of a due index are left to clean: a million take about 15 s, and a fifth of Redis.
const NEXT_CLEANS: Duration = Duration::from_millis(100);
/// The most repairs that one round logs one by one.
const MOST_LINES: usize = 10;

/// All that is known of published shards, and the round in flight.
pub(super) struct Healing {
    known: Verified,
    round: Option<InFlight<HealingRound>>,
    ended: Option<Moment>,
    pause: Duration,
    /// Things repaired since the start.
    repaired: u64,
    /// The limits as last read, for a daemon without a config.
    published: Vec<Limit>,
}

// === impl Healing ===

impl Healing {
    pub(super) fn new() -> Self {
        Self {
            known: Verified::default(),
            round: None,
            ended: None,
            pause: INTERVAL,
            repaired: 0,
            published: Vec::new(),
        }
    }

    /// Things repaired since the start.
    pub(super) const fn repaired(&self) -> u64 {
        self.repaired
    }

    /// Notes the limits that are published now. Where the record of a `registered` limit cannot be read, the one that was
    /// read before counts.
    pub(super) fn note_published(&mut self, registered: &BTreeSet<LimitName>, limits: Vec<Limit>) {
        let is_lost = |known: &Limit| {
            registered.contains(&known.name) && limits.iter().all(|limit| limit.name != known.name)
        };
        self.published.retain(is_lost);
        self.published.extend(limits);
    }

    /// Notes that of the limits that were published under the generation `before`, only those that have `changed` are
    /// others under `generation`.
    pub(super) fn note_generation(&mut self, before: u64, generation: u64, changed: &BTreeSet<LimitName>) {
        if self.known.generation == before {
            self.known.generation = generation;
            self.known.verified.retain(|(name, _), _| !changed.contains(name));
        }
    }

    /// The limits as last read.
    pub(super) fn published(&self) -> Vec<Limit> {
        self.published.clone()
    }

    /// Whether no round is in flight.
    pub(super) const fn is_idle(&self) -> bool {
        self.round.is_none()
    }

    /// Whether the next round is due.
    pub(super) fn is_due(&self) -> bool {
        self.is_idle() && self.ended.is_none_or(|ended| ended.elapsed() >= self.pause)
    }

    /// Begins a round at `now`, in µs of Redis `TIME`: of the shared keys, and of the `desired` limits, which are published
    /// under `generation`. Limits that are not this daemon's `own` are another's to remove: they are looked at only if no
    /// other daemon is alive.
    pub(super) fn begin(
        &mut self,
        connection: &Connection,
        id: &str,
        generation: u64,
        now: u64,
        desired: Vec<Limit>,
        own: bool,
    ) {
        let mut known = self.known.clone();
        if known.generation != generation && !desired.is_empty() {
            known = Verified { generation, next: known.next, ..Verified::default() };
        }
        let (connection, id) = (connection.clone(), id.to_owned());
        self.round = Some(Box::pin(async move {
            let mut round =
                HealingRound { known, repairs: Vec::new(), error: None, foreign: BTreeSet::new() };
            if let Err(error) = round.run(&connection, &id, now, &desired, own).await {
                round.error = Some(error);
            }
            round
        }));
    }

    /// Waits until the round in flight has ended. `None` at once if there is none.
    pub(super) async fn next(&mut self) -> Option<HealingRound> {
        finished(&mut self.round).await
    }

    /// Records and logs a round that has ended.
    pub(super) fn ended(&mut self, round: &mut HealingRound) {
        self.known = std::mem::take(&mut round.known);
        self.ended = Some(Moment::now());
        self.pause = match (self.known.suspects.is_empty(), self.known.cleaned.is_empty()) {
            (true, true) => INTERVAL,
            (true, false) => NEXT_CLEANS,
            (false, _) => SECOND_LOOK,
        };
        self.repaired += round.repairs.len() as u64;
        for repair in round.repairs.iter().take(MOST_LINES) {
            tracing::warn!("repaired: {repair}");
        }
        if round.repairs.len() > MOST_LINES {
            let more = counted(round.repairs.len() - MOST_LINES, "more thing");
            tracing::warn!("repaired: {more}, each written by no topup");
        }
        if let Some(error) = &round.error {
            tracing::debug!("looking for differences failed ({error}); trying again");
        }
    }
}
