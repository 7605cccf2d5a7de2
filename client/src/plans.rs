//! Plans of keys: which bucket a take is for.

mod find_place;

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};

use crate::{
    bucket::{Bucket, Here},
    decision::Decision,
    error::{Answered, Error},
    machine::Micros,
    place::{RECKON_AGAIN, plan_changed},
    shell::{BucketEntry, Place, clock::micros},
};

/// Attempts at most to find the bucket of a key whose plan changes.
const MOST_ATTEMPTS: usize = 64;

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
        // Boxed, since few limits have plans.
        let place = Box::pin(self.place(entry)).await?;
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
}
