//! Token buckets: settled, decremented, refilled, migrated, evicted.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use topup_twin::{AtRest, Bucket};
use topup_wire::{
    bucket::Operation,
    limit::Supply,
    scripts::{InDoubt, Look, PutIn},
};

use super::world::{MEMBERS, World};
use crate::{
    generators::{
        FARTHEST, ahead, any_size, capacity, count, limit, on_change, period, seeds, some_time, terms,
    },
    server::Redis,
};

const WORLDS: u64 = 30;
const STEPS: usize = 160;

#[tokio::test]
async fn the_scripts_do_what_their_twin_does() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(WORLDS) {
        let mut first = limit(capacity(&mut rng).get(), "1/s");
        let now = redis.time().await;
        first.terms = terms(&mut rng, now);
        first.catch_up = rng.random_bool(0.8);
        first.on_change = on_change(&mut rng);
        let mut world = World::new(redis, first).await;
        for _ in 0..STEPS {
            step(&mut world, &mut rng).await;
            world.compare().await;
        }
        redis = world.redis;
    }
}

async fn step(world: &mut World, rng: &mut StdRng) {
    let i = rng.random_range(0..MEMBERS.len());
    let may_count = rng.random_bool(0.6);
    match rng.random_range(0..100) {
        0..20 => drop(world.settle(i, Operation::Take(1), may_count, in_doubt(world, i, rng)).await),
        20..32 => {
            let count = count(&world.twin.record, rng);
            let operation =
                [Operation::Take, Operation::Share, Operation::Lease, Operation::Peek, Operation::Refund]
                    .choose(rng)
                    .unwrap();
            world.settle(i, operation(count), may_count, in_doubt(world, i, rng)).await;
        }
        35 if rng.random_bool(0.3) => drop(world.settle(i, Operation::Reset, may_count, None).await),
        32..36 => {
            let ahead = ahead(&world.twin.record, rng);
            world.settle(i, ahead, false, None).await;
        }
        36..40 => {
            let taken = Operation::Lease(count(&world.twin.record, rng));
            let learned = world.settle(i, taken, may_count, None).await;
            if rng.random_bool(0.5) {
                world.decrement(i).await;
            }
            let offset = any_size(rng, 1 << 10);
            let full_at = learned.now + learned.headroom + if offset < 100 { offset } else { 0 };
            let request = PutIn {
                tokens: rng.random_bool(0.8).then(|| count(&world.twin.record, rng)),
                unused: if rng.random_bool(0.5) { rng.random_range(0..5) } else { 0 },
                unused_since: (learned.now + 1_000_000).saturating_sub(any_size(rng, 4_000_000)),
                full_at: rng.random_bool(0.8).then_some(full_at),
                spare: if rng.random_bool(0.3) { rng.random_range(0..5) } else { 0 },
                in_hand_for: Duration::from_micros(any_size(rng, 4_000_000)),
            };
            world.put_in(i, request).await;
            if rng.random_bool(0.5) {
                let later = if rng.random_bool(0.5) { request.in_hand_for.as_micros() as i64 } else { 1_000 };
                world.travel(later).await;
                world.put_in(i, request).await;
            }
        }
        40..47 => world.first_take(i, 1).await,
        47..52 => world.first_take(i, count(&world.twin.record, rng)).await,
        52..65 => {
            // A worker that crashes here leaves debt.
            if world.decrement(i).await.is_some_and(|left| left < 0) && rng.random_bool(0.8) {
                world.settle(i, Operation::Take(1), may_count, None).await;
            }
        }
        65..70 => {
            let look = if rng.random_bool(0.5) { Look::Due } else { Look::All };
            world.refill(rng.random_range(1..=MEMBERS.len() + 1), look).await;
        }
        70..80 => {
            let by = some_time(&world.twin.record, rng);
            let by = if rng.random_bool(0.2) { -by } else { by };
            if (world.travelled + by).abs() < FARTHEST {
                world.travel(by).await;
            }
        }
        80..90 => take_at_rest(world, i, rng).await,
        90..93 => change(world, rng).await,
        93..98 => world.migrate(&slice(rng)).await,
        _ => world.evict(i).await,
    }
}

/// Mostly as a client does. Now and then the correction after a take comes late, or never.
async fn take_at_rest(world: &mut World, i: usize, rng: &mut StdRng) {
    let count = if rng.random_bool(0.5) { 1 } else { count(&world.twin.record, rng) };
    let first_at = match rng.random_range(0..6) {
        0 | 1 => 0,
        // A worker that was stopped meanwhile: its key may have expired before it is written.
        2 => world.redis.time().await - any_size(rng, 1 << 24),
        _ => world.redis.time().await + any_size(rng, 1 << 14),
    };
    let full_at = world.take_at_rest(i, count, first_at).await;
    if rng.random_bool(0.2) {
        let lease = Operation::Lease(rng.random_range(0..4));
        world.settle(i, lease, rng.random_bool(0.5), None).await;
    }
    match full_at {
        Some(_) if rng.random_bool(0.3) => world.give(i, count).await,
        Some(full_at) if rng.random_bool(0.7) => world.live_until(i, full_at).await,
        _ => {}
    }
}

/// Mostly none. Now and then those of the very bucket.
pub(super) fn in_doubt(world: &World, i: usize, rng: &mut StdRng) -> Option<InDoubt> {
    let record = &world.twin.record;
    let full_at = match world.buckets[i] {
        Bucket::AtRest(AtRest::Until { full_at, .. }) => full_at,
        Bucket::Counting(held) => {
            record.pace.instant(held.score, record.capacity.saturating_sub(held.tokens.unsigned_abs()))
        }
        _ => 0,
    };
    let later = rng.random_range(0..3) * record.pace.p + [0, 1, any_size(rng, 1 << 10)].choose(rng).unwrap();
    let full_at = if rng.random_bool(0.7) { full_at + later } else { 0 };
    let tokens = any_size(rng, record.capacity).max(1);
    rng.random_bool(0.2).then_some(InDoubt { tokens, full_at })
}

/// Some of the buckets, in any order.
fn slice(rng: &mut StdRng) -> Vec<usize> {
    let most = rng.random_range(1..=MEMBERS.len());
    rand::seq::index::sample(rng, MEMBERS.len(), most).into_vec()
}

async fn change(world: &mut World, rng: &mut StdRng) {
    let now = world.redis.time().await;
    let mut limit = world.twin.limit.clone();
    match rng.random_range(0..6) {
        0 => limit.terms = terms(rng, now),
        1 => limit.terms.capacity = capacity(rng),
        2 => limit.terms.supply = Supply::Period(period(rng, now)),
        3 => limit.on_change = on_change(rng),
        4 => limit.catch_up = !limit.catch_up,
        _ => {}
    }
    let at = rng.random_bool(0.5).then(|| (now + 1_000_000_000).saturating_sub(any_size(rng, 1 << 40)));
    world.publish(limit, at).await;
}
