//! Each algorithm that only scripts take from, against its twin.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};
use topup_twin::{Record, State};
use topup_wire::{
    bucket::Operation,
    limit::{Limit, Terms},
    reply::{PutInReply, Verdict},
    scripts::{self, PutIn},
};

use super::{record::Twin, schedule::schedule};
use crate::{
    generators::{FARTHEST, any_size, charge, count, limit, on_change, seeds, some_time},
    server::{Content, Keyspace, Redis, instant},
    travel::{travel, travel_record},
};

const WORLDS: u64 = 16;
const STEPS: usize = 120;
/// Between two questions to Redis, in ms: generous, for a machine that is busy.
const A_MOMENT: u64 = 5_000;
const MEMBERS: [&str; 2] = ["", "alice"];

/// The twin of put-ins.
pub(super) type PutsIn<S> = fn(&Record, &mut Option<S>, PutIn, u64) -> PutInReply;

/// A state as Redis keeps it.
pub(super) trait Kept: State {
    /// Terms that the algorithm can have.
    fn terms(rng: &mut StdRng) -> Terms;

    /// As it should be in Redis.
    fn content(&self) -> Content;

    /// The same `by` µs earlier.
    fn earlier(&self, by: i64) -> Self;

    /// A take, or a similar operation.
    fn take(count: u64, _: &mut StdRng) -> Operation {
        Operation::Take(count)
    }

    /// The twin of its put-ins, if they are more than refunds.
    const PUTS_IN: Option<PutsIn<Self>> = None;

    /// Some µs that may make a difference.
    fn some_time(record: &Record, rng: &mut StdRng) -> i64 {
        some_time(record, rng)
    }
}

/// One limit, twice.
struct World<S> {
    redis: Redis,
    twin: Twin,
    buckets: [Option<S>; 2],
    /// When the states expire, in ms.
    expiries: [u64; 2],
    travelled: i64,
    /// Replies compared.
    replies: usize,
    /// Put-ins that have to wait.
    waits: usize,
}

/// Random worlds in which the script and its twin see the same.
pub(super) async fn agree<S: Kept>() {
    agree_with::<S>(false).await;
}

/// The same under changes that a schedule makes, and no daemon.
pub(super) async fn agree_under_schedules<S: Kept>() {
    agree_with::<S>(true).await;
}

async fn agree_with<S: Kept>(scheduled: bool) {
    let (mut redis, mut steps, mut replies, mut waits) = (Redis::start().await, 0, 0, 0);
    for (_seed, mut rng) in seeds(WORLDS) {
        let mut first = limit(1, "1/s");
        first.terms = S::terms(&mut rng);
        first.algorithm = S::ALGORITHM;
        first.catch_up = rng.random_bool(0.5);
        first.on_change = on_change(&mut rng);
        if scheduled {
            first.schedule = schedule(&mut rng, redis.time().await, S::terms);
        }
        let twin = Twin::new(&mut redis, first).await;
        let buckets = [const { None::<S> }; 2];
        let mut world = World { redis, twin, buckets, expiries: [0; 2], travelled: 0, replies: 0, waits: 0 };
        for _ in 0..STEPS {
            world.step(&mut rng).await;
            world.hold(&mut rng).await;
            world.compare().await;
        }
        steps += STEPS;
        replies += world.replies;
        waits += world.waits;
        redis = world.redis;
    }
    eprintln!("{}: {steps} steps, {replies} replies, {waits} waits, 0 mismatches", S::ALGORITHM);
    assert_eq!(waits > 0, S::PUTS_IN.is_some());
}

// === impl World ===

impl<S: Kept> World<S> {
    async fn step(&mut self, rng: &mut StdRng) {
        let i = rng.random_range(0..MEMBERS.len());
        match rng.random_range(0..10) {
            0..4 => self.settle(i, S::take(1, rng)).await,
            4..7 => {
                let count = count(&self.twin.record, rng);
                let operation = match rng.random_range(0..4) {
                    0 => S::take(count, rng),
                    1 => Operation::Share(count),
                    2 => Operation::Peek(count),
                    _ => Operation::Refund(count),
                };
                self.settle(i, operation).await;
            }
            7 if rng.random_bool(0.2) => self.settle(i, Operation::Reset).await,
            7 if rng.random_bool(0.5) => self.put_in(i, rng).await,
            7 if rng.random_bool(0.4) => {
                let charge = charge(&self.twin.record, rng);
                self.settle(i, charge).await;
            }
            7 if rng.random_bool(0.5) && self.twin.record.schedule.is_empty() => self.change(rng).await,
            _ => {
                // Keys expire by the ms, so time passes by the ms.
                let by = S::some_time(&self.twin.record, rng) / 1_000 * 1_000;
                let by = if rng.random_bool(0.2) { -by } else { by };
                if (self.travelled + by).abs() < FARTHEST {
                    self.travel(by).await;
                }
            }
        }
    }

    async fn settle(&mut self, i: usize, operation: Operation) {
        let (conn, Twin { keys, record, .. }) = (&mut self.redis.connection, &self.twin);
        let settled =
            scripts::settle(conn, S::ALGORITHM, keys, MEMBERS[i], operation, true, None).await.unwrap();
        let before = self.buckets[i].clone();
        let expected = S::settle(record, &mut self.buckets[i], operation, settled.now);
        assert_eq!(settled, expected, "{operation:?} of {before:?} under {record:?}");
        self.replies += 1;
        let written = settled.verdict == Verdict::Allowed || self.buckets[i] != before;
        if written && !matches!(operation, Operation::Peek(_)) {
            self.expiries[i] = self.buckets[i].as_ref().map_or(0, |held| held.expiry(record));
        }
        self.twin.grow(&mut self.redis, settled.now).await;
    }

    async fn put_in(&mut self, i: usize, rng: &mut StdRng) {
        let Some(put_in) = S::PUTS_IN else { return };
        let (conn, Twin { keys, record, .. }) = (&mut self.redis.connection, &self.twin);
        let tokens = rng.random_bool(0.8).then(|| count(record, rng));
        let request = PutIn {
            tokens,
            unused: any_size(rng, 4),
            unused_since: 0,
            spare: any_size(rng, 4),
            full_at: None,
            in_hand_for: Duration::from_micros(any_size(rng, 60_000_000)),
        };
        let reply = scripts::try_put_in(conn, S::ALGORITHM, keys, MEMBERS[i], request).await.unwrap();
        let (PutInReply::Done(settled) | PutInReply::Again(settled)) = reply;
        let before = self.buckets[i].clone();
        let expected = put_in(record, &mut self.buckets[i], request, settled.now);
        assert_eq!(reply, expected, "{request:?} of {before:?} under {record:?}");
        self.waits += usize::from(matches!(reply, PutInReply::Again(_)));
        self.expiries[i] = self.buckets[i].as_ref().map_or(0, |held| held.expiry(record));
        self.twin.grow(&mut self.redis, settled.now).await;
    }

    async fn change(&mut self, rng: &mut StdRng) {
        let mut limit: Limit = self.twin.limit.clone();
        match rng.random_range(0..4) {
            0 | 1 => limit.terms = S::terms(rng),
            2 => limit.on_change = on_change(rng),
            _ => limit.catch_up = !limit.catch_up,
        }
        let now = self.redis.time().await;
        let at = rng.random_bool(0.5).then(|| now - any_size(rng, 1 << 40));
        self.twin.publish(&mut self.redis, limit, at, false).await;
    }

    async fn travel(&mut self, by: i64) {
        travel(&mut self.redis, &self.twin.keys, by).await;
        travel_record(&mut self.twin.limit, &mut self.twin.record, by);
        self.twin.published = self.twin.published.saturating_add_signed(-by);
        for (i, member) in MEMBERS.iter().enumerate() {
            let Some(held) = &self.buckets[i] else { continue };
            let held = held.earlier(by);
            let key = self.twin.keys.state(S::ALGORITHM, member);
            self.redis.put(&key, &held.content()).await;
            self.expiries[i] = self.expiries[i].saturating_add_signed(-by / 1_000);
            self.buckets[i] = Some(held);
        }
        self.travelled += by;
    }

    /// Checks the expiries of the states, and removes them. An expired state is as good as none, there or not.
    async fn hold(&mut self, rng: &mut StdRng) {
        let states = MEMBERS.map(|member| self.twin.keys.state(S::ALGORITHM, member));
        // At once, or one might expire between being seen and being kept.
        let mut ask = redis::pipe();
        ask.atomic().cmd("TIME");
        for state in &states {
            ask.cmd("PTTL").arg(state).cmd("PERSIST").arg(state);
        }
        let (now, left, _, other_left, _): ((u64, u64), i64, bool, i64, bool) =
            ask.query_async(&mut self.redis.connection).await.unwrap();
        let now = instant(now) / 1_000;
        for (i, left) in [left, other_left].into_iter().enumerate() {
            let (expiry, held) = (self.expiries[i], self.buckets[i].is_some());
            if left >= 0 {
                let said = now + left as u64;
                assert!(said.abs_diff(expiry) < A_MOMENT, "{said} is not {expiry}");
            }
            if held && (left == -2 || rng.random_bool(0.5) && expiry < now) {
                assert!(expiry < now + A_MOMENT, "expired before {expiry}");
                self.buckets[i] = None;
                self.redis.ask::<()>(&["DEL", &states[i]]).await;
            }
        }
    }

    async fn compare(&mut self) {
        let seen = self.redis.keyspace().await;
        let mut expected = Keyspace::from([self.twin.content()]);
        for (member, held) in MEMBERS.iter().zip(&self.buckets) {
            let Some(held) = held else { continue };
            expected.insert(self.twin.keys.state(S::ALGORITHM, member), held.content());
        }
        assert_eq!(seen, expected);
    }
}
