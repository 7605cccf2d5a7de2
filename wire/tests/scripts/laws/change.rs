//! Law 6: a change keeps tokens.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use topup_wire::{
    bucket::Operation,
    limit::{Capacity, Limit, OnChange, Period, Supply},
    reply::{PublishReply, Verdict},
};

use super::{level::LeakyBucket, scene::Scene};
use crate::{
    generators::{limit, seeds},
    server::Redis,
};

const RUNS: u64 = 15;
const STEPS: usize = 80;
const HOUR: u64 = 3_600_000_000;
const MEMBERS: [&str; 3] = ["a", "b", "never taken from"];
const RATES: [&str; 9] = ["1/s", "3/s", "7/min", "1000/h", "50/s", "997/s", "999999/d", "1/d", "13/7d"];

/// A quota of `capacity` tokens, last filled `since` and next at `next`.
fn quota(capacity: u64, since: u64, next: u64) -> Limit {
    let mut limit = limit(capacity, "1/d");
    limit.terms.supply = Supply::Period(Period { since, next });
    limit
}

#[tokio::test]
async fn a_quota_that_changes_before_a_bucket_was_filled_fills_it_all_the_same() {
    let mut redis = Redis::start().await;
    let start = redis.time().await;
    let mut scene = Scene::set(redis, quota(10, start - HOUR, start + HOUR)).await;
    for member in ["migrated", "settled"] {
        scene.take(member, 10).await;
    }
    // Filled at the hour; the change comes a second later, before any daemon's pass.
    scene.pass(HOUR + 1_000_000).await;
    let mut changed = limit(20, "1/d");
    scene.publish(changed.clone(), None).await;
    assert_eq!(scene.tokens("settled").await, 10);
    scene.migrate(1).await;
    assert_eq!(scene.tokens("migrated").await, 10);

    // A bucket that was not due at the change stays as it was.
    scene.take("migrated", 7).await;
    let now = scene.now().await;
    changed = quota(30, now - HOUR, now + HOUR);
    scene.publish(changed, None).await;
    scene.migrate(1).await;
    assert_eq!(scene.tokens("migrated").await, 3);
}

#[tokio::test]
async fn a_bucket_is_carried_as_its_change_said_whatever_is_published_after() {
    let mut scene = Scene::set(Redis::start().await, limit(10, "1/d")).await;
    scene.take("a", 10).await;
    let mut changed = limit(20, "1/d");
    scene.publish(changed.clone(), None).await;
    changed.on_change = OnChange::Reset;
    scene.publish(changed.clone(), None).await;
    scene.migrate(1).await;
    assert_eq!(scene.tokens("a").await, 0);

    changed.terms.capacity = Capacity::new(5).unwrap();
    scene.publish(changed, None).await;
    assert_eq!(scene.settle("a", Operation::Take(1)).await.tokens, 4);
}

/// Holds for any change. Tokens come at the old rate before it and at the new one after it, and none is lost.
#[tokio::test]
async fn many_changes_lose_no_token_and_give_none() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(RUNS) {
        let ways = [OnChange::Keep, OnChange::Keep, OnChange::Proportional, OnChange::Reset];
        let mut first = limit(rng.random_range(1..1_000), RATES.choose(&mut rng).unwrap());
        first.on_change = *ways.choose(&mut rng).unwrap();
        let mut scene = Scene::set(redis, first).await;
        let start = scene.now().await;
        // The last of them is never taken from.
        let mut levels = MEMBERS.map(|_| LeakyBucket::full(&scene.limit, start));
        for _ in 0..STEPS {
            let i = rng.random_range(0..MEMBERS.len() - 1);
            match rng.random_range(0..10) {
                0..3 => {
                    let (n, p) = scene.pace();
                    let most = u128::from(scene.limit.terms.capacity.get()) * u128::from(p) / u128::from(n);
                    let (slips, by) = (scene.slips, rng.random_range(0..most as u64 / 2 + 2));
                    scene.pass_about(by).await;
                    for level in &mut levels {
                        level.uncertain(scene.slips - slips, scene.slips - slips);
                    }
                }
                3..6 => {
                    let count = rng.random_range(0..=scene.limit.terms.capacity.get());
                    let settled = scene.settle(MEMBERS[i], Operation::Take(count)).await;
                    levels[i].until(settled.now);
                    if settled.verdict == Verdict::Allowed {
                        levels[i].taken(count);
                        levels[i].uncertain(3, 0);
                    }
                }
                6 => drop(scene.refill(2).await),
                7 => scene.migrate(2).await,
                _ => change(&mut scene, &mut levels, &mut rng).await,
            }
            for (member, level) in MEMBERS.iter().zip(&mut levels) {
                let settled = scene.settle(member, Operation::Peek(1)).await;
                let allowed = level.allows(settled.tokens, settled.now);
                assert!(allowed, "{member} has {}, not {level:?}: {:?}", settled.tokens, scene.limit);
            }
        }
        redis = scene.redis;
    }
}

async fn change(scene: &mut Scene, levels: &mut [LeakyBucket], rng: &mut StdRng) {
    // Some changes belong to a schedule and are published a little late. Credits since then at the old rate would
    // stand; here there are none.
    let late = rng.random_bool(0.5).then(|| rng.random_range(1..3_000_000));
    if late.is_some() {
        scene.migrate(2).await;
    }
    let at = scene.now().await;
    scene.pass(late.unwrap_or(0)).await;
    let mut limit = scene.limit.clone();
    if rng.random_bool(0.5) {
        limit.terms.capacity = Capacity::new(rng.random_range(1..1_000)).unwrap();
    } else {
        limit.terms.supply = Supply::Rate(RATES.choose(rng).unwrap().parse().unwrap());
    }
    if limit == scene.limit {
        return;
    }
    let from = late.map(|_| at.checked_add_signed(-scene.passed).unwrap());
    if scene.publish(limit.clone(), from).await == PublishReply::Busy {
        scene.migrate(3).await;
        assert_ne!(scene.publish(limit.clone(), None).await, PublishReply::Busy);
    }
    let record = scene.keys.record.clone();
    let since = scene.redis.ask(&["HGET", &record, "since"]).await;
    let since = scene.instant(since);
    for level in levels {
        if since > level.at() {
            level.until(since);
        }
        level.changed(&limit);
        level.uncertain(1, 1);
    }
}
