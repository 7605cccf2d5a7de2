//! One limit, its buckets as the twin has them, and Redis.

use std::collections::BTreeMap;

use topup_wire::{
    bucket::{self, Bucket, Operation},
    limit::{Limit, MAX_TOKENS},
    reply::{Carried, Refilled, Settled, Verdict},
    scripts::{self, Look},
};

use super::record::Twin;
use crate::{
    server::{Content, Keyspace, Redis},
    travel::{travel, travel_twin},
};

/// The keys of the buckets: the one of an unkeyed limit, and such as a careless script might stumble over.
pub(crate) const MEMBERS: [&str; 4] = ["", "alice", "b:{x}%s\n", "-7"];

/// One limit, twice: in Redis, and as the twin has it.
pub(crate) struct World {
    pub(crate) redis: Redis,
    pub(crate) twin: Twin,
    buckets: [Bucket; 4],
    /// What bare `DECR`s have made of the counters of absent buckets; 0 where there is none.
    strays: [i64; 4],
    /// Buckets in the index whose counters are gone.
    evicted: [bool; 4],
    /// How far time has been made to pass.
    pub(crate) travelled: i64,
}

// === impl World ===

impl World {
    /// Publishes `limit` on an emptied Redis.
    pub(crate) async fn new(mut redis: Redis, limit: Limit) -> Self {
        let twin = Twin::new(&mut redis, limit).await;
        Self { redis, twin, buckets: [None; 4], strays: [0; 4], evicted: [false; 4], travelled: 0 }
    }

    pub(crate) async fn settle(&mut self, i: usize, operation: Operation) -> Settled {
        let conn = &mut self.redis.connection;
        let settled = scripts::settle(conn, &self.twin.keys, MEMBERS[i], operation, true, 0).await.unwrap();
        let before = self.buckets[i];
        let expected = bucket::settle(&self.twin.record, &mut self.buckets[i], operation, settled.now);
        assert_eq!(settled, expected, "{operation:?} of {before:?} under {:?}", self.twin.record);
        let moved = self.buckets[i].map(|held| held.score) != before.map(|held| held.score);
        let written = settled.verdict == Verdict::Allowed || (settled.verdict == Verdict::Denied && moved);
        if written && !matches!(operation, Operation::Peek(_)) {
            (self.strays[i], self.evicted[i]) = (0, false);
        }
        settled
    }

    /// Puts tokens back as if the bucket, when `learned` of, had not been touched since, or by something that takes `aside`.
    pub(crate) async fn put_back(&mut self, i: usize, count: u64, learned: Settled, aside: u64) {
        let (conn, full_at) = (&mut self.redis.connection, learned.now + learned.headroom + aside);
        let settled = scripts::put_back(conn, &self.twin.keys, MEMBERS[i], count, full_at).await.unwrap();
        let (record, bucket) = (&self.twin.record, &mut self.buckets[i]);
        assert_eq!(settled, bucket::put_back(record, bucket, count, full_at, settled.now), "{record:?}");
        (self.strays[i], self.evicted[i]) = (0, false);
    }

    pub(crate) async fn decrement(&mut self, i: usize) -> i64 {
        let counter = self.twin.keys.counter(MEMBERS[i]);
        let left = scripts::decrement(&mut self.redis.connection, &counter, 1).await.unwrap();
        assert_eq!(left, bucket::decrement(&mut self.buckets[i], &mut self.strays[i]));
        self.evicted[i] = false;
        left
    }

    pub(crate) async fn refill(&mut self, most: usize, look: Look) {
        let conn = &mut self.redis.connection;
        let refilled = scripts::refill(conn, &self.twin.keys, most, look).await.unwrap();
        let (now, all, record) = (refilled.now, look == Look::All, &self.twin.record);
        let mut due: Vec<(i64, bool, u64, &str, usize)> = Vec::new();
        for (i, held) in self.buckets.iter().enumerate() {
            if let Some(held) = held.filter(|held| bucket::is_due(record, *held, all, now)) {
                due.push((bucket::offset(held.distance), held.score > now, held.score, MEMBERS[i], i));
            }
        }
        due.sort_unstable();
        let mut expected = Refilled { now, again: now, ..Refilled::default() };
        for &(.., i) in due.iter().take(most) {
            let before = self.buckets[i];
            assert!(bucket::refill(record, &mut self.buckets[i], now));
            self.evicted[i] = false;
            expected.credited += 1;
            expected.full += u64::from(self.buckets[i].is_none());
            let held = before.map_or(0, |held| held.tokens.max(0) as u64);
            let holds = self.buckets[i].map_or(record.capacity, |held| held.tokens as u64);
            expected.tokens = (expected.tokens + holds.saturating_sub(held)).min(MAX_TOKENS);
        }
        if due.len() < most {
            expected.again = bucket::again(record, self.buckets.iter().flatten().copied(), now);
        }
        assert_eq!(refilled, expected, "{look:?} under {record:?}");
    }

    pub(crate) async fn carry(&mut self, slice: &[usize]) {
        let members: Vec<String> = slice.iter().map(|i| MEMBERS[*i].to_owned()).collect();
        let reply = scripts::carry(&mut self.redis.connection, &self.twin.keys, &members).await.unwrap();
        let mut carried = 0;
        for &i in slice {
            if bucket::carry(&self.twin.record, &mut self.buckets[i], reply.now) {
                self.evicted[i] = false;
                carried += 1;
            }
        }
        let left = self.buckets.iter().flatten().filter(|held| held.former).count() as u64;
        assert_eq!(reply, Carried { carried, left, now: reply.now });
        self.twin.former &= left > 0;
    }

    /// Publishes `limit` from `at` on.
    pub(crate) async fn publish(&mut self, limit: Limit, at: Option<u64>) {
        let waiting = self.buckets.iter().flatten().any(|held| held.former);
        if self.twin.publish(&mut self.redis, limit, at, waiting).await {
            self.twin.former = self.buckets.iter().any(Option::is_some);
            for held in self.buckets.iter_mut().flatten() {
                held.former = true;
            }
        }
    }

    /// Redis drops a counter, as it may when memory runs out.
    pub(crate) async fn evict(&mut self, i: usize) {
        let counter = self.twin.keys.counter(MEMBERS[i]);
        self.redis.ask::<()>(&["DEL", &counter]).await;
        self.strays[i] = 0;
        if let Some(held) = &mut self.buckets[i] {
            held.tokens = 0;
            self.evicted[i] = true;
        }
    }

    pub(crate) async fn travel(&mut self, by: i64) {
        travel(&mut self.redis, &self.twin.keys, by).await;
        travel_twin(&mut self.twin.limit, &mut self.twin.record, &mut self.buckets, by);
        self.travelled += by;
    }

    /// Every key is as the twin has it, and there is no other.
    pub(crate) async fn compare(&mut self) {
        assert_eq!(self.redis.keyspace().await, self.keyspace());
    }

    fn keyspace(&self) -> Keyspace {
        let Twin { keys, .. } = &self.twin;
        let mut keyspace = Keyspace::from([self.twin.content()]);
        for (index, former) in [(&keys.due, false), (&keys.former, true)] {
            let held = MEMBERS.iter().zip(self.buckets).filter_map(|(member, held)| Some((*member, held?)));
            let scores: BTreeMap<_, _> = held
                .filter(|(_, held)| held.former == former)
                .map(|(member, held)| (member.to_owned(), held.score as i64 + bucket::offset(held.distance)))
                .collect();
            if !scores.is_empty() {
                keyspace.insert(index.clone(), Content::Scores(scores));
            }
        }
        for (i, member) in MEMBERS.iter().enumerate() {
            let counter = self.buckets[i].map_or(self.strays[i], |held| held.tokens);
            if self.buckets[i].map_or(self.strays[i] != 0, |_| !self.evicted[i]) {
                keyspace.insert(keys.counter(member), Content::Text(counter.to_string()));
            }
        }
        keyspace
    }
}
