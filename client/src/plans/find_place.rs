//! Finds the place of a key's takes, and moves its tokens if its plan has just changed.

use std::{pin::pin, sync::Arc, time::Duration};

use topup_wire::{
    limit::{PlanPeriod, Target},
    scripts,
};

use super::MOST_ATTEMPTS;
use crate::{
    bucket::Bucket,
    error::Error,
    place::{KnownPlace, plan_changed},
    shell::{BucketEntry, Handle, Place, Placed, key_plans::Shapes},
};

/// A change that is made too early for Redis, or by another worker, is made again after this.
const SOON: Duration = Duration::from_millis(1);

// === impl Bucket ===

impl Bucket {
    /// Finds the place of the key's takes. Moves its tokens if its plan has just changed.
    pub(super) async fn place(&self, entry: &Arc<BucketEntry>) -> Result<Place, Error> {
        let (handle, shared) = (self.handle(), self.handle().shared());
        for _ in 0..MOST_ATTEMPTS {
            let before = entry.placed.load_full();
            if let Some(before) = before.as_ref().filter(|before| entry.is_good(before, handle)) {
                return Ok(before.place.clone());
            }
            let Some(key) = entry.key() else { return Ok(Place::Here) };
            match entry.find(entry.limit(), key, before.as_deref(), handle) {
                KnownPlace::Unread => {
                    handle.within_deadline(entry.read(handle)).await?;
                    handle.trust_plans().await?;
                }
                KnownPlace::Ask(shapes) => {
                    let ask = self.ask_assigned(entry, key, &shapes, before.as_ref());
                    self.alone(entry, before.as_ref(), ask).await?;
                }
                KnownPlace::Wait(at) => {
                    let left = at.saturating_sub(shared.clock.now()) + 1;
                    shared.clock.sleep(Duration::from_micros(left)).await;
                }
                KnownPlace::Placed { period, spans, placed } => {
                    let place = self.place_of(entry, key, &period, &placed, before.as_deref())?;
                    let placed = Placed { place: place.clone(), ..placed };
                    let Some(at) = period.changed.filter(|at| *at != placed.moved) else {
                        self.arrive(entry, before.as_deref(), placed);
                        return Ok(place);
                    };
                    let make = async {
                        let is_made = self.make_change(entry, key, period.target, &spans).await?;
                        if is_made {
                            self.arrive(entry, before.as_deref(), Placed { moved: at, ..placed });
                        }
                        Ok(is_made)
                    };
                    match self.alone(entry, before.as_ref(), make).await? {
                        Some(true) => return Ok(place),
                        Some(false) => shared.clock.sleep(SOON).await,
                        None => {}
                    }
                }
            }
        }
        Err(plan_changed(entry))
    }

    /// Notes the place of the key's takes from now on.
    fn arrive(&self, entry: &Arc<BucketEntry>, before: Option<&Placed>, placed: Placed) {
        entry.leave(before, &placed, self.handle());
        if let Place::Plan(other) = &placed.place {
            other.placed.store(Some(Arc::new(Placed { place: Place::Here, ..placed.clone() })));
        }
        entry.placed.store(Some(Arc::new(placed)));
    }

    /// The result of `call`, or `None` if another task has learned of the key's place since `before`. Of all tasks that wait,
    /// one asks Redis.
    async fn alone<T>(
        &self,
        entry: &BucketEntry,
        before: Option<&Arc<Placed>>,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        let handle = self.handle();
        let asked = async {
            let _turn = handle.shared().plans.asking.turn(entry).await;
            let known = entry.placed.load_full();
            let is_same = known.as_ref().map(Arc::as_ptr) == before.map(Arc::as_ptr);
            if is_same { call.await.map(Some) } else { Ok(None) }
        };
        handle.within_deadline(asked).await
    }

    /// Asks Redis for the assignments of the key.
    async fn ask_assigned(
        &self,
        entry: &BucketEntry,
        key: &str,
        shapes: &Shapes,
        before: Option<&Arc<Placed>>,
    ) -> Result<(), Error> {
        let shared = self.handle().shared();
        let as_of = shared.plans.version();
        let mut connection = shared.connection();
        let asked = scripts::assigned_outside(&mut connection, entry.name(), shapes, key).await;
        let assigned = asked.map_err(|error| Error::of_record(entry.name(), error))?;
        let is_any = assigned.iter().any(Option::is_some);
        let assigned = is_any.then(|| Arc::new(assigned));
        let unplaced = before.map(|before| Placed::clone(before)).unwrap_or_default();
        let known = Placed { stamp: 0, assigned, as_of: as_of.max(1), ..unplaced };
        entry.placed.store(Some(Arc::new(known)));
        Ok(())
    }

    fn place_of(
        &self,
        entry: &Arc<BucketEntry>,
        key: &str,
        period: &PlanPeriod,
        placed: &Placed,
        before: Option<&Placed>,
    ) -> Result<Place, Error> {
        let shared = self.handle().shared();
        Ok(match period.target {
            None => Place::Here,
            Some(Target::Exempt) => Place::Exempt,
            Some(Target::Deny) => {
                let assigned = placed.assigned.as_deref().into_iter().flatten().flatten();
                let assigned = assigned.filter_map(|one| one.assignment);
                let denied = assigned.filter(|one| one.target == Target::Deny).find_map(|one| one.until);
                Place::Denied(period.until.or(denied))
            }
            Some(Target::Plan(plan)) => {
                let limit = shared.limits.get(entry.name().plan(plan));
                if let Some(Place::Plan(same)) = before.map(|before| &before.place)
                    && *same.name() == limit.name
                {
                    return Ok(Place::Plan(same.clone()));
                }
                Place::Plan(shared.buckets.get(&shared.limits, &limit, Some(key))?)
            }
        })
    }
}

// === impl Handle ===

impl Handle {
    /// Waits until what is known of assignments can be trusted.
    async fn trust_plans(&self) -> Result<(), Error> {
        let (plans, clock) = (&self.shared().plans, &self.shared().clock);
        let trusted = async {
            loop {
                let mut news = pin!(plans.news.notified());
                news.as_mut().enable();
                if clock.now() < plans.trusted_until() {
                    return Ok(());
                }
                news.await;
            }
        };
        self.within_deadline(trusted).await
    }
}
