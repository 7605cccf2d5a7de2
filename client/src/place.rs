//! The place of a key's takes, as far as the worker knows it: this bucket, or that of a plan.

use std::sync::Arc;

use topup_wire::limit::{PlanPeriod, PlanSpan};

use crate::{
    error::Error,
    machine::{Event, Micros},
    shell::{
        BucketEntry, Handle, LimitHandle, Place, Placed,
        key_plans::{KnownAssigned, Shapes},
    },
};

/// The instant of a change is computed anew after this, since the two clocks drift apart.
pub(crate) const RECKON_AGAIN: Micros = 1_000_000;

/// The place of a key's takes as far as it is known without asking Redis.
pub(crate) enum KnownPlace {
    /// The terms, and what they rest on.
    Placed { period: PlanPeriod, spans: Vec<PlanSpan>, placed: Placed },
    /// The key may be assigned outside of the config: Redis knows.
    Ask(Shapes),
    /// The terms change about now: it is known after this instant of the worker's clock.
    Wait(Micros),
    /// The limit, or the assignments, are to be read first.
    Unread,
}

// === impl BucketEntry ===

impl BucketEntry {
    /// Whether takes are for this very bucket, as far as that is known now.
    #[inline]
    pub(crate) fn is_placed_here(&self, client: &Handle) -> bool {
        let placed = self.placed.load();
        placed.as_ref().is_some_and(|placed| {
            let is_over = || client.shared().clock.now() >= placed.valid_until;
            placed.stamp == client.plan_stamp()
                && placed.place == Place::Here
                // Most have no end, and cost no reading of the clock.
                && (placed.valid_until == Micros::MAX || !is_over())
        })
    }

    /// Whether `placed` is true now.
    pub(crate) fn is_good(&self, placed: &Placed, client: &Handle) -> bool {
        let (shared, now) = (client.shared(), client.shared().clock.now());
        placed.stamp == client.plan_stamp() && now < placed.valid_until && now < shared.plans.trusted_until()
    }

    /// Whether a command of this bucket may be written now. A bucket of a limit without plans always may.
    pub(crate) fn may_take_here(&self, client: &Handle) -> bool {
        if !self.limit().is_planned() {
            return true;
        }
        let is_good = |placed: &Arc<Placed>| placed.place == Place::Here && self.is_good(placed, client);
        // Not cloned: most commands come here, and their knowledge is good.
        if self.placed.load().as_ref().is_some_and(is_good) {
            return true;
        }
        let placed = self.placed.load_full();
        // The knowledge has changed since, though perhaps not for this key.
        let (Some(placed), Some(key)) = (placed, self.key()) else { return false };
        let limit = client.shared().limits.get(self.name().live());
        match self.find(&limit, key, Some(&placed), client) {
            KnownPlace::Placed { period, placed: found, .. } => {
                let is_here = limit.name.under(period.target) == Some(*self.name());
                let is_moved = period.changed.is_none_or(|at| at == placed.moved);
                let may = is_here && placed.place == Place::Here && is_moved;
                if may {
                    self.placed.store(Some(Arc::new(Placed { place: Place::Here, ..found })));
                }
                may
            }
            KnownPlace::Ask(_) | KnownPlace::Wait(_) | KnownPlace::Unread => false,
        }
    }

    /// The plan of `key` of `limit`, without asking Redis. `before` is what was known.
    pub(crate) fn find(
        &self,
        limit: &LimitHandle,
        key: &str,
        before: Option<&Placed>,
        client: &Handle,
    ) -> KnownPlace {
        let shared = client.shared();
        let stamp = client.plan_stamp();
        let Some(published) = limit.current(shared.control.epoch()) else { return KnownPlace::Unread };
        let now = shared.clock.now();
        if now >= shared.plans.trusted_until() {
            return KnownPlace::Unread;
        }
        let version = shared.plans.version();
        let as_of = before.map_or(0, |before| before.as_of);
        let (assigned, as_of) = match shared.plans.assigned(&limit.name, key, as_of) {
            KnownAssigned::None => (None, version.max(1)),
            KnownAssigned::Unchanged => (before.and_then(|before| before.assigned.clone()), as_of),
            KnownAssigned::Ask(shapes) => return KnownPlace::Ask(shapes),
        };
        let sources = published.plan_sources(key, assigned.as_deref().cloned().unwrap_or_default());
        let time = shared.control.stored_time();
        let (earliest, latest) = (time.earliest(now), time.latest(now));
        let period = sources.period(earliest);
        if let Some(change) = period.until.filter(|change| *change <= latest) {
            return KnownPlace::Wait(time.local(change));
        }
        let reckoned = |change| time.earliest_local(change).min(now.saturating_add(RECKON_AGAIN));
        let valid_until = period.until.map_or(Micros::MAX, reckoned);
        let moved = before.map_or(0, |before| before.moved);
        let placed = Placed { stamp, valid_until, place: Place::Here, assigned, as_of, moved };
        // The plans before matter only while the tokens are to be moved.
        let is_moved = period.changed.is_none_or(|at| at == moved);
        let since = earliest.saturating_sub(published.limit.plans_fill);
        let spans = if is_moved { Vec::new() } else { sources.history(since, earliest) };
        KnownPlace::Placed { period, spans, placed }
    }

    /// Leaves the bucket in which the key's takes were before, if they are in another one now, or are back after a change.
    /// Tokens in hand are lost, and what is known of the bucket is forgotten.
    pub(crate) fn leave(self: &Arc<Self>, before: Option<&Placed>, placed: &Placed, client: &Handle) {
        let (place, moved) = before.map_or((&Place::Here, 0), |before| (&before.place, before.moved));
        let left = match place {
            _ if *place == placed.place && moved == placed.moved => return,
            Place::Here => self,
            Place::Plan(other) => other,
            Place::Exempt | Place::Denied(_) => return,
        };
        left.step(Event::PutsBack(0), client, None);
    }
}

// === impl Handle ===

impl Handle {
    /// Counts changes of what is known of plans. It is never 0.
    #[inline]
    pub(crate) fn plan_stamp(&self) -> u64 {
        self.shared().control.epoch() + self.shared().plans.changes() + 1
    }
}

pub(crate) fn plan_changed(entry: &BucketEntry) -> Error {
    Error::PlanChanged { limit: entry.name().live().to_string() }
}
