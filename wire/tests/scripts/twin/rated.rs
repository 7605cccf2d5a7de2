//! Buckets that fill at a rate and that no daemon tops up.

use rand::{RngExt, rngs::StdRng};
use topup_twin::{AtRest, LazyBucket, LeakyBucket};
use topup_wire::{
    bucket::{Operation, Reservation},
    limit::{Supply, Terms},
    scripts::number_at_rest,
};

use super::script_only::{Kept, PutsIn, agree, agree_under_schedules};
use crate::{
    generators::{any_size, capacity, packed_rate, rate},
    server::Content,
    travel::travelled,
};

#[tokio::test]
async fn the_lazy_token_bucket_does_what_its_twin_does() {
    agree::<LazyBucket>().await;
    agree_under_schedules::<LazyBucket>().await;
}

#[tokio::test]
async fn gcra_does_what_its_twin_does() {
    agree::<AtRest>().await;
    agree_under_schedules::<AtRest>().await;
}

#[tokio::test]
async fn the_leaky_bucket_does_what_its_twin_does() {
    agree::<LeakyBucket>().await;
    agree_under_schedules::<LeakyBucket>().await;
}

/// Any capacity and any rate.
fn any(rng: &mut StdRng) -> Terms {
    Terms { capacity: capacity(rng), supply: Supply::Rate(rate(rng)) }
}

/// A bucket at rest as it should be in Redis: a `number`, where it may be one while it is not held.
pub(super) fn content_at_rest(at_rest: &AtRest, number: bool) -> Content {
    Content::Text(match (*at_rest, number) {
        (AtRest::Until { tag, full_at, early, hold: 0 }, true) => {
            (number_at_rest(tag.into(), full_at) + early as i64).to_string()
        }
        (AtRest::FirstTake { tag, count, .. }, _) => format!("f{tag:04}{count}"),
        (AtRest::Until { tag, full_at, hold: 0, .. }, false) => format!("r{tag:04}{full_at:016}"),
        (AtRest::Debt { tag, at, hold, debt }, _) => format!("d{tag:04}{at:016}{hold:016}{debt}"),
        (AtRest::Until { tag, full_at, hold, .. }, _) => format!("h{tag:04}{full_at:016}{hold:016}"),
    })
}

impl Kept for LazyBucket {
    fn terms(rng: &mut StdRng) -> Terms {
        Terms { capacity: capacity(rng), supply: Supply::Rate(packed_rate(rng)) }
    }

    fn content(&self) -> Content {
        Content::Numbers(vec![self.tokens, self.at as i64, self.since as i64])
    }

    fn earlier(&self, by: i64) -> Self {
        let earlier = |instant: u64| instant.saturating_add_signed(-by);
        Self { at: earlier(self.at), since: earlier(self.since), ..*self }
    }
}

impl Kept for LeakyBucket {
    fn terms(rng: &mut StdRng) -> Terms {
        any(rng)
    }

    fn content(&self) -> Content {
        Content::Numbers([self.level, self.at, self.since].map(|number| number as i64).into())
    }

    fn earlier(&self, by: i64) -> Self {
        let earlier = |instant: u64| instant.saturating_add_signed(-by);
        Self { at: earlier(self.at), since: earlier(self.since), ..*self }
    }

    fn take(count: u64, rng: &mut StdRng) -> Operation {
        match rng.random_range(0..3) {
            0 => Operation::Take(count),
            1 => Operation::Reserve(Reservation { count, longest: 1 << 53, ..Reservation::default() }),
            _ => Operation::Reserve(Reservation {
                count,
                longest: any_size(rng, 1 << 40),
                ..Reservation::default()
            }),
        }
    }
}

impl Kept for AtRest {
    fn terms(rng: &mut StdRng) -> Terms {
        loop {
            let (capacity, rate) = (capacity(rng), rate(rng));
            if rate.pace().can_rest(capacity.get()) {
                return Terms { capacity, supply: Supply::Rate(rate) };
            }
        }
    }

    fn content(&self) -> Content {
        content_at_rest(self, false)
    }

    fn take(count: u64, rng: &mut StdRng) -> Operation {
        match rng.random_range(0..3) {
            0 => Operation::Take(count),
            _ => Operation::Reserve(Reservation {
                count,
                longest: any_size(rng, 1 << 40),
                in_hand_for: any_size(rng, 60_000_000),
                forfeit: if rng.random_bool(0.5) { 0 } else { any_size(rng, 100_000) },
            }),
        }
    }

    const PUTS_IN: Option<PutsIn<Self>> = Some(Self::put_in);

    fn earlier(&self, by: i64) -> Self {
        travelled(*self, by)
    }
}
