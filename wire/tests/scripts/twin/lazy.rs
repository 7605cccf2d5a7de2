//! Lazy token buckets.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use topup_wire::{
    bucket::{self, Bucket, Operation},
    limit::{Algorithm, Supply},
    reply::Verdict,
    scripts,
};

use super::record::Twin;
use crate::{
    draw::{FAR, any_size, capacity, count, limit, on_change, rate, seeds, some_time},
    server::{Content, Keyspace, Redis},
    travel::{travel, travel_twin},
};

const WORLDS: u64 = 30;
const STEPS: usize = 120;
/// Between two questions to Redis, in ms: generous, for a machine that is busy.
const A_MOMENT: u64 = 5_000;
const MEMBERS: [&str; 2] = ["", "alice"];

/// One lazy limit, twice.
struct World {
    redis: Redis,
    twin: Twin,
    buckets: [Bucket; 2],
    /// What the states say of when they were written: the change before it.
    written_under: [u64; 2],
    /// When the states expire, in ms.
    expiries: [u64; 2],
    travelled: i64,
}

#[tokio::test]
async fn the_lazy_script_does_what_its_twin_does() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(WORLDS) {
        let mut first = limit(capacity(&mut rng).get(), "1/s");
        first.terms.supply = Supply::Rate(rate(&mut rng));
        first.algorithm = Algorithm::LazyTokenBucket;
        first.catch_up = rng.random_bool(0.5);
        first.on_change = on_change(&mut rng);
        let twin = Twin::new(&mut redis, first).await;
        let (buckets, written_under, expiries) = ([None; 2], [0; 2], [0; 2]);
        let mut world = World { redis, twin, buckets, written_under, expiries, travelled: 0 };
        for _ in 0..STEPS {
            world.hold().await;
            world.step(&mut rng).await;
            world.hold().await;
            world.compare().await;
            world.release().await;
        }
        redis = world.redis;
    }
}

// === impl World ===

impl World {
    async fn step(&mut self, rng: &mut StdRng) {
        let i = rng.random_range(0..MEMBERS.len());
        match rng.random_range(0..10) {
            0..4 => self.operate(i, Operation::Take(1)).await,
            4..7 => {
                let count = count(&self.twin.record, rng);
                let operation = [Operation::Take, Operation::Share, Operation::Peek, Operation::Refund]
                    .choose(rng)
                    .unwrap();
                self.operate(i, operation(count)).await;
            }
            7 if rng.random_bool(0.3) => self.operate(i, Operation::Reset).await,
            7 if rng.random_bool(0.5) => self.change(rng).await,
            _ => {
                // Keys expire by the ms, so time passes by the ms.
                let by = some_time(&self.twin.record, rng) / 1_000 * 1_000;
                let by = if rng.random_bool(0.2) { -by } else { by };
                if (self.travelled + by).abs() < FAR {
                    self.travel(by).await;
                }
            }
        }
    }

    async fn operate(&mut self, i: usize, operation: Operation) {
        let conn = &mut self.redis.connection;
        let settled = scripts::lazy(conn, &self.twin.keys, MEMBERS[i], operation).await.unwrap();
        let before = self.buckets[i];
        let expected = bucket::lazy(&self.twin.record, &mut self.buckets[i], operation, settled.now);
        assert_eq!(settled, expected, "{operation:?} of {before:?} under {:?}", self.twin.record);
        let written = settled.verdict == Verdict::Allowed || self.buckets[i] != before;
        if written && !matches!(operation, Operation::Peek(_)) {
            self.written_under[i] = self.twin.record.since;
            self.expiries[i] = self.buckets[i].map_or(0, |held| bucket::expiry(&self.twin.record, held));
        }
    }

    async fn change(&mut self, rng: &mut StdRng) {
        let mut limit = self.twin.limit.clone();
        match rng.random_range(0..4) {
            0 => limit.terms.capacity = capacity(rng),
            1 => limit.terms.supply = Supply::Rate(rate(rng)),
            2 => limit.on_change = on_change(rng),
            _ => limit.catch_up = !limit.catch_up,
        }
        let now = self.redis.time().await;
        let at = rng.random_bool(0.5).then(|| now - any_size(rng, 1 << 40));
        if self.twin.publish(&mut self.redis, limit, at, false).await {
            for held in self.buckets.iter_mut().flatten() {
                held.former = true;
            }
        }
    }

    async fn travel(&mut self, by: i64) {
        let states = MEMBERS.map(|member| self.twin.keys.lazy_state(member));
        travel(&mut self.redis, &self.twin.keys, &states, by).await;
        travel_twin(&mut self.twin.limit, &mut self.twin.record, &mut self.buckets, by);
        for since in &mut self.written_under {
            *since = since.saturating_add_signed(-by);
        }
        for expiry in &mut self.expiries {
            *expiry = expiry.saturating_add_signed(-by / 1_000);
        }
        self.travelled += by;
    }

    /// Keeps states from expiring in the midst of a step, and notices those that have expired.
    async fn hold(&mut self) {
        for (i, member) in MEMBERS.iter().enumerate() {
            let state = self.twin.keys.lazy_state(member);
            let left: i64 = self.redis.ask(&["PTTL", &state]).await;
            let now = self.redis.time().await / 1_000;
            let held: bool = left == -1 || self.redis.ask(&["PERSIST", &state]).await;
            if held && left >= 0 {
                let said = now + left as u64;
                assert!(said.abs_diff(self.expiries[i]) < A_MOMENT, "{said} is not {}", self.expiries[i]);
            }
            if !held && self.buckets[i].take().is_some() {
                assert!(self.expiries[i] < now + A_MOMENT, "expired before {}", self.expiries[i]);
            }
        }
    }

    /// Lets them expire again.
    async fn release(&mut self) {
        for (i, member) in MEMBERS.iter().enumerate() {
            let state = self.twin.keys.lazy_state(member);
            self.redis.ask::<()>(&["PEXPIREAT", &state, &self.expiries[i].to_string()]).await;
        }
    }

    async fn compare(&mut self) {
        let mut expected = Keyspace::from([self.twin.content()]);
        for (i, member) in MEMBERS.iter().enumerate() {
            let Some(held) = self.buckets[i] else { continue };
            let fields = [
                ("tokens", held.tokens.to_string()),
                ("at", held.score.to_string()),
                ("since", self.written_under[i].to_string()),
            ];
            let fields = fields.map(|(field, value)| (field.to_owned(), value));
            expected.insert(self.twin.keys.lazy_state(member), Content::Fields(fields.into()));
        }
        assert_eq!(self.redis.keyspace().await, expected);
    }
}
