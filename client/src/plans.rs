//! Plans of keys: which bucket a take is for.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use topup_wire::{
    limit::{PlanPeriod, Target},
    scripts,
};

use crate::{
    bucket::{Bucket, Here},
    decision::Decision,
    error::{Answered, Error},
    machine::Micros,
    place::{KnownPlace, RECKON_AGAIN, plan_changed},
    shell::{BucketEntry, Handle, Place, Placed, clock::micros},
};

/// Attempts at most to find the bucket of a key whose plan changes.
const MOST_ATTEMPTS: usize = 64;
/// A change that is made too early for Redis, or by another worker, is made again after this.
const SOON: Duration = Duration::from_millis(1);

// === impl Bucket ===

impl Bucket {
    /// Whether the plan of the bucket's key must be found before a take.
    #[inline]
    pub(crate) fn is_to_be_placed(&self, entry: &BucketEntry) -> bool {
        entry.limit().is_planned() && !entry.is_placed_here(self.handle())
    }

    /// Takes from the bucket of the key's plan, or waits for tokens of it for the time `longest`.
    pub(crate) async fn take_by_plan(&self, count: u64, longest: Option<Duration>) -> Answered {
        let entry = self.entry()?;
        let shared = self.handle().shared();
        let until = longest.map(|longest| shared.clock.now().saturating_add(micros(longest)));
        for _ in 0..MOST_ATTEMPTS {
            let place = match self.place(entry).await {
                Ok(place) => place,
                Err(error) => return self.conclude(entry, count, Err(error)),
            };
            let bucket = match self.at_place(entry, &place) {
                Here::Bucket(bucket) => bucket,
                Here::Decided(decision) => return self.conclude(entry, count, Ok(decision)),
            };
            let left = || until.map(|until| Duration::from_micros(until.saturating_sub(shared.clock.now())));
            let answer = match left() {
                None => bucket.take_here(count).await,
                Some(left) => self.wait_by_plan(entry, &place, &bucket, (count, left)).await,
            };
            match answer {
                Err(Error::PlanChanged { .. }) => {}
                answer => return answer,
            }
        }
        self.conclude(entry, count, Err(plan_changed(entry)))
    }

    /// Waits for tokens of `bucket`, as long as the key is at this place.
    async fn wait_by_plan(
        &self,
        entry: &Arc<BucketEntry>,
        place: &Place,
        bucket: &Bucket,
        (count, left): (u64, Duration),
    ) -> Answered {
        let shared = self.handle().shared();
        let mut answer = pin!(bucket.wait_here(count, left));
        loop {
            let news = shared.plans.news.notified();
            let changes_at = entry.placed.load().as_ref().map_or(Micros::MAX, |placed| placed.valid_until);
            let change = async {
                let left = changes_at.saturating_sub(shared.clock.now()).min(RECKON_AGAIN);
                match select(pin!(news), pin!(shared.clock.sleep(Duration::from_micros(left)))).await {
                    Either::Left(_) | Either::Right(_) => {}
                }
            };
            if let Either::Left((answer, _)) = select(answer.as_mut(), pin!(change)).await {
                return answer;
            }
            // An error is found by the wait, too.
            if let Ok(now) = self.place(entry).await
                && now != *place
            {
                return Err(plan_changed(entry));
            }
        }
    }

    /// The bucket of the key's plan, for operations other than takes.
    pub(crate) async fn here(&self) -> Result<Here, Error> {
        let entry = self.entry()?;
        if !entry.limit().is_planned() {
            self.handle().within_deadline(entry.read(self.handle())).await?;
        }
        if !self.is_to_be_placed(entry) {
            return Ok(Here::Bucket(self.clone()));
        }
        let place = self.place(entry).await?;
        Ok(self.at_place(entry, &place))
    }

    /// The bucket of the key's plan, if it is known without Redis. Otherwise it is found for the next call.
    pub(crate) fn here_now(&self) -> Option<Here> {
        let entry = self.entry().ok()?;
        if !entry.limit().is_planned() {
            return Some(Here::Bucket(self.clone()));
        }
        let placed = entry.placed.load_full().filter(|placed| entry.is_good(placed, self.handle()));
        if placed.is_none() {
            let bucket = self.clone();
            self.handle().shared().runtime.spawn(async move { bucket.here().await.map(drop) });
        }
        Some(self.at_place(entry, &placed?.place))
    }

    fn at_place(&self, entry: &BucketEntry, place: &Place) -> Here {
        let capacity = entry.limit().last().map_or(0, |published| published.limit.terms.capacity.get());
        match place {
            Place::Here => Here::Bucket(self.clone()),
            Place::Plan(other) => Here::Bucket(Self::of(self.handle(), other).with_policies(self.policies())),
            Place::Exempt => Here::Decided(Decision::Allowed { remaining: capacity, capacity }),
            Place::Denied(until) => {
                let shared = self.handle().shared();
                let local = until.map(|until| shared.control.stored_time().local(until));
                let left = local.map(|local| Duration::from_micros(local.saturating_sub(shared.clock.now())));
                let retry_after = left.unwrap_or(Duration::MAX);
                Here::Decided(Decision::Denied { remaining: 0, capacity, retry_after })
            }
        }
    }

    /// Finds the place of the key's takes. Moves its tokens if its plan has just changed.
    async fn place(&self, entry: &Arc<BucketEntry>) -> Result<Place, Error> {
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
                    let as_of = shared.plans.version();
                    let mut connection = shared.connection();
                    let asked = scripts::assigned_outside(&mut connection, entry.name(), &shapes, key);
                    let assigned = handle
                        .within_deadline(async { asked.await.map_err(|e| Error::of_record(entry.name(), e)) })
                        .await?;
                    let unplaced = before.as_deref().cloned().unwrap_or_default();
                    let is_any = assigned.iter().any(Option::is_some);
                    let assigned = is_any.then(|| Arc::new(assigned));
                    let known = Placed { stamp: 0, assigned, as_of: as_of.max(1), ..unplaced };
                    entry.placed.store(Some(Arc::new(known)));
                }
                KnownPlace::Wait(at) => {
                    let left = at.saturating_sub(shared.clock.now()) + 1;
                    shared.clock.sleep(Duration::from_micros(left)).await;
                }
                KnownPlace::Placed { period, spans, placed } => {
                    let place = self.place_of(entry, key, &period, &placed, before.as_deref())?;
                    let mut placed = Placed { place: place.clone(), ..placed };
                    if let Some(at) = period.changed.filter(|at| *at != placed.moved) {
                        if !self.make_change(entry, key, period.target, &spans).await? {
                            shared.clock.sleep(SOON).await;
                            continue;
                        }
                        placed.moved = at;
                    }
                    entry.leave(before.as_deref(), &place, handle);
                    if let Place::Plan(other) = &place {
                        other.placed.store(Some(Arc::new(Placed { place: Place::Here, ..placed.clone() })));
                    }
                    entry.placed.store(Some(Arc::new(placed)));
                    return Ok(place);
                }
            }
        }
        Err(plan_changed(entry))
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
