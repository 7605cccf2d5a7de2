//! One limit, its buckets as the twin has them, and Redis.

use std::collections::BTreeMap;

use topup_twin::{AtRest, Bucket, Counter};
use topup_wire::{
    bucket::Operation,
    limit::{Algorithm, Limit, MAX_TOKENS},
    reply::{Migrated, PutInReply, Refilled, Settled, Verdict},
    scripts::{self, InDoubt, Look, PutIn},
};

use super::{rated::content_at_rest, record::Twin};
use crate::{
    server::{Content, Keyspace, Redis},
    travel::{travel, travel_twin},
};

/// The keys of the buckets: the one of an unkeyed limit, and such as a careless script might stumble over.
pub(crate) const MEMBERS: [&str; 4] = ["", "alice", "b:{x}%s\n", "-7"];
/// Most ms between an expiry and the instant that a script computes from it. Generous, for a busy machine.
const LATE: u64 = 100;

/// One limit, twice: in Redis, and as the twin has it.
pub(crate) struct World {
    pub(crate) redis: Redis,
    pub(crate) twin: Twin,
    pub(super) buckets: [Bucket; 4],
    /// When the keys of those at rest expire, in ms: by the terms they were written under.
    pub(super) expiries: [u64; 4],
    /// Noise of bare `DECR`s in buckets at rest that are numbers.
    pub(super) numbers: [bool; 4],
    /// Counters that bare `DECR`s have made of absent buckets; 0 where there is none.
    pub(super) strays: [i64; 4],
    /// Buckets in the index whose counters are gone.
    pub(super) evicted: [bool; 4],
    /// µs by which time has been moved so far.
    pub(crate) travelled: i64,
}

// === impl World ===

impl World {
    /// Publishes `limit` on an emptied Redis.
    pub(crate) async fn new(mut redis: Redis, limit: Limit) -> Self {
        let twin = Twin::new(&mut redis, limit).await;
        let buckets = [Bucket::Absent; 4];
        let (expiries, numbers, strays, evicted) = ([0; 4], [false; 4], [0; 4], [false; 4]);
        Self { redis, twin, buckets, expiries, numbers, strays, evicted, travelled: 0 }
    }

    pub(crate) async fn settle(
        &mut self,
        i: usize,
        operation: Operation,
        may_count: bool,
        in_doubt: Option<InDoubt>,
    ) -> Settled {
        let (conn, keys) = (&mut self.redis.connection, &self.twin.keys);
        let settled =
            scripts::settle(conn, Algorithm::TokenBucket, keys, MEMBERS[i], operation, may_count, in_doubt)
                .await
                .unwrap();
        let record = self.twin.record;
        let doubted = in_doubt.is_some() && record.catch_up && record.pace.n > 0;
        self.expect(i, settled, (operation, doubted), &|bucket| {
            topup_twin::settle(&record, bucket, operation, may_count, in_doubt, settled.now)
        })
        .await;
        settled
    }

    /// Puts tokens in.
    pub(crate) async fn put_in(&mut self, i: usize, request: PutIn) {
        let (conn, keys) = (&mut self.redis.connection, &self.twin.keys);
        let algorithm = Algorithm::TokenBucket;
        let reply = scripts::try_put_in(conn, algorithm, keys, MEMBERS[i], request).await.unwrap();
        let settled = |reply| match reply {
            PutInReply::Done(settled) => settled,
            PutInReply::Again(settled) => Settled { granted: u64::MAX, ..settled },
        };
        let (record, told) = (self.twin.record, settled(reply));
        let operation = request.tokens.map_or(Operation::Reset, Operation::Refund);
        self.expect(i, told, (operation, false), &|bucket| {
            settled(topup_twin::put_in(&record, bucket, request, told.now))
        })
        .await;
    }

    /// Redis has `settled` as the twin does. With tokens in doubt, a denied operation is written, too.
    async fn expect(
        &mut self,
        i: usize,
        settled: Settled,
        (operation, doubted): (Operation, bool),
        twin: &dyn Fn(&mut Bucket) -> Settled,
    ) {
        let before = self.buckets[i];
        let mut after = before;
        let mut expected = twin(&mut after);
        if matches!(before, Bucket::AtRest(_))
            && self.expiries[i] <= settled.now / 1_000
            && settled != expected
        {
            // Gone since it was last looked at.
            after = Bucket::Absent;
            expected = twin(&mut after);
        }
        if let Bucket::AtRest(AtRest::FirstTake { tag, count, expires }) = before {
            // A script sees the expiry late by a ms or so. The value that it writes tells by how much.
            let (stands, number) = (self.stands(i).await, self.rests_as_number(settled.now));
            for late in 0..LATE {
                let seen = Bucket::AtRest(AtRest::FirstTake { tag, count, expires: expires + late });
                let mut next = seen;
                let reply = twin(&mut next);
                if reply == settled && (next == seen || self.written(i, next, number) == stands) {
                    (expected, after) = (reply, if next == seen { before } else { next });
                    break;
                }
            }
        }
        assert_eq!(settled, expected, "{operation:?} of {before:?} under {:?}", self.twin.record);
        let denied_in_doubt = doubted && settled.verdict == Verdict::Denied;
        let written = after != before || settled.verdict == Verdict::Allowed || denied_in_doubt;
        if written && !matches!(operation, Operation::Peek(_)) {
            (self.strays[i], self.evicted[i]) = (0, false);
            if let Bucket::AtRest(at_rest) = after {
                self.expiries[i] = at_rest.expiry(&self.twin.record);
                self.numbers[i] = self.rests_as_number(settled.now);
            }
        }
        self.buckets[i] = after;
        self.twin.grow(&mut self.redis, settled.now).await;
    }

    /// Whether a bucket at rest that is written at `now` is a number.
    fn rests_as_number(&self, now: u64) -> bool {
        self.twin.record.rests_as_number(now)
    }

    /// A bucket's key and place as they are in Redis.
    async fn stands(&mut self, i: usize) -> (Option<Content>, Option<i64>) {
        let (keys, member) = (&self.twin.keys, MEMBERS[i]);
        let (state, due) = (keys.counter(member), keys.due.clone());
        let text: Option<String> = self.redis.ask(&["GET", &state]).await;
        (text.map(Content::Text), self.redis.ask(&["ZSCORE", &due, member]).await)
    }

    /// The same as they should be.
    fn written(&self, i: usize, bucket: Bucket, number: bool) -> (Option<Content>, Option<i64>) {
        match bucket {
            Bucket::Absent => {
                ((self.strays[i] != 0).then(|| Content::Text(self.strays[i].to_string())), None)
            }
            Bucket::AtRest(at_rest) => (Some(content_at_rest(&at_rest, number)), None),
            Bucket::Counting(held) => (Some(Content::Text(held.tokens.to_string())), Some(place(held))),
        }
    }

    /// A client's first take, where it may try one.
    pub(crate) async fn first_take(&mut self, i: usize, count: u64) {
        let record = self.twin.record;
        let rated = record.catch_up && record.pace.n > 0;
        if !rated || self.evicted[i] || !scripts::can_take_first(record.capacity, record.pace, count) {
            return;
        }
        let (conn, state) = (&mut self.redis.connection, self.twin.keys.counter(MEMBERS[i]));
        let taken = scripts::first_take(conn, &state, record.terms_id, record.pace, count).await.unwrap();
        let now = self.redis.time().await;
        if taken {
            self.forget_expired(i, now);
        }
        let bucket = &mut self.buckets[i];
        let before = *bucket;
        let expected = self.strays[i] == 0 && topup_twin::first_take(&record, bucket, count, now);
        assert_eq!(taken, expected, "of {before:?}");
        if let (true, Bucket::AtRest(AtRest::FirstTake { expires, .. })) = (taken, bucket) {
            let seen = self.redis.expiry(&state).await;
            match u64::try_from(seen) {
                Ok(seen) => {
                    assert!(seen <= *expires && seen + LATE > *expires, "{seen} is not {expires}");
                    *expires = seen;
                    self.expiries[i] = seen;
                    self.numbers[i] = false;
                }
                // It is gone already.
                Err(_) => self.buckets[i] = Bucket::Absent,
            }
        }
    }

    /// A bare `DECR`; `None` of a bucket at rest.
    pub(crate) async fn decrement(&mut self, i: usize) -> Option<i64> {
        let counter = self.twin.keys.counter(MEMBERS[i]);
        let left = scripts::decrement(&mut self.redis.connection, &counter, 1).await;
        if left.as_ref().is_ok_and(|left| self.moves_number(i, *left)) {
            return None;
        }
        if left.is_ok() {
            let now = self.redis.time().await;
            self.forget_expired(i, now);
        }
        let expected = topup_twin::decrement(&mut self.buckets[i], &mut self.strays[i]);
        match left {
            Ok(left) => assert_eq!(Some(left), expected),
            Err(error) => assert!(expected.is_none() && scripts::is_not_a_counter(&error), "{error}"),
        }
        self.evicted[i] = false;
        expected
    }

    /// A bucket at rest that must be full by `now` may have lost its key.
    pub(super) fn forget_expired(&mut self, i: usize, now: u64) {
        if let Bucket::AtRest(at_rest) = self.buckets[i] {
            let expiry = self.expiries[i];
            assert!(expiry <= now / 1_000, "{at_rest:?} expired at {now}, not at {expiry}");
            self.buckets[i] = Bucket::Absent;
        }
    }

    /// The counting buckets, by their numbers.
    fn counting(&self) -> impl Iterator<Item = (usize, Counter)> {
        let held = |(i, bucket): (usize, &Bucket)| match *bucket {
            Bucket::Counting(held) => Some((i, held)),
            Bucket::Absent | Bucket::AtRest(_) => None,
        };
        self.buckets.iter().enumerate().filter_map(held)
    }

    pub(crate) async fn refill(&mut self, most: usize, look: Look) {
        let conn = &mut self.redis.connection;
        let refilled = scripts::refill(conn, &self.twin.keys, most, look).await.unwrap();
        let (now, all, record) = (refilled.now, look == Look::All, &self.twin.record);
        let due = self.counting().filter(|(_, held)| topup_twin::is_due(record, *held, all, now));
        let mut due: Vec<(i64, bool, u64, &str, usize, Counter)> = due
            .map(|(i, held)| {
                (topup_twin::band_offset(held.band), held.score > now, held.score, MEMBERS[i], i, held)
            })
            .collect();
        due.sort_unstable_by_key(|(offset, ahead, score, member, ..)| (*offset, *ahead, *score, *member));
        let mut expected = Refilled { now, again: now, ..Refilled::default() };
        for &(.., i, before) in due.iter().take(most) {
            assert!(topup_twin::refill(record, &mut self.buckets[i], now));
            self.evicted[i] = false;
            expected.credited += 1;
            let (held, _) = record.counted(before.tokens);
            let holds = match self.buckets[i] {
                Bucket::Counting(held) => held.tokens as u64,
                _ => record.capacity,
            };
            expected.full += u64::from(self.buckets[i] == Bucket::Absent);
            expected.tokens = (expected.tokens + holds.saturating_sub(held)).min(MAX_TOKENS);
        }
        if due.len() < most {
            expected.again = topup_twin::again(record, self.counting().map(|(_, held)| held), now);
        }
        assert_eq!(refilled, expected, "{look:?} under {record:?}");
    }

    pub(crate) async fn migrate(&mut self, slice: &[usize]) {
        let members: Vec<String> = slice.iter().map(|i| MEMBERS[*i].to_owned()).collect();
        let reply = scripts::migrate(&mut self.redis.connection, &self.twin.keys, &members).await.unwrap();
        let mut migrated = 0;
        for &i in slice {
            if topup_twin::migrate(&self.twin.record, &mut self.buckets[i], reply.now) {
                self.evicted[i] = false;
                migrated += 1;
            }
        }
        let left = self.counting().filter(|(_, held)| held.is_previous).count() as u64;
        assert_eq!(reply, Migrated { migrated, left, now: reply.now });
        self.twin.has_previous &= left > 0;
    }

    /// Publishes `limit` from `at` on.
    pub(crate) async fn publish(&mut self, limit: Limit, at: Option<u64>) {
        let waiting = self.counting().any(|(_, held)| held.is_previous);
        if self.twin.publish(&mut self.redis, limit, at, waiting).await {
            self.forget_previous_numbers().await;
            let has_previous = self.counting().next().is_some();
            self.twin.has_previous = has_previous;
            for bucket in &mut self.buckets {
                if let Bucket::Counting(held) = bucket {
                    held.is_previous = true;
                }
            }
        }
    }

    /// A daemon comes late, and publishes what the schedule has changed by now.
    pub(crate) async fn catch_up_with_schedule(&mut self) {
        if self.counting().any(|(_, held)| held.is_previous) {
            return;
        }
        let active = self.counting().next().is_some();
        if self.twin.catch_up_with_schedule(&mut self.redis, active).await {
            for bucket in &mut self.buckets {
                if let Bucket::Counting(held) = bucket {
                    held.is_previous = true;
                }
            }
        }
    }

    /// Redis drops a counter, as it may when memory runs out.
    pub(crate) async fn evict(&mut self, i: usize) {
        let counter = self.twin.keys.counter(MEMBERS[i]);
        self.redis.ask::<()>(&["DEL", &counter]).await;
        self.strays[i] = 0;
        match &mut self.buckets[i] {
            Bucket::Counting(held) => {
                held.tokens = 0;
                self.evicted[i] = true;
            }
            // Taken for full then: why such a policy is warned of.
            bucket => *bucket = Bucket::Absent,
        }
    }

    pub(crate) async fn travel(&mut self, by: i64) {
        travel(&mut self.redis, &self.twin.keys, by).await;
        if by < 0 {
            // Keys whose time had come stay gone. The time is read last, since a key may expire meanwhile.
            for (i, member) in MEMBERS.iter().enumerate() {
                if !self.redis.ask::<bool>(&["EXISTS", &self.twin.keys.counter(member)]).await {
                    let now = self.redis.time().await;
                    self.forget_expired(i, now);
                }
            }
        }
        travel_twin(&mut self.twin.limit, &mut self.twin.record, &mut self.buckets, by);
        for expiry in &mut self.expiries {
            *expiry = expiry.saturating_add_signed(-by.div_euclid(1_000));
        }
        self.travelled += by;
    }

    /// Every key is as the twin has it, and there is no other.
    pub(crate) async fn compare(&mut self) {
        let seen = self.redis.keyspace().await;
        let now = self.redis.time().await;
        for (i, member) in MEMBERS.iter().enumerate() {
            if !seen.contains_key(&self.twin.keys.counter(member)) {
                self.forget_expired(i, now);
            }
        }
        assert_eq!(seen, self.keyspace());
        for (i, member) in MEMBERS.iter().enumerate() {
            let Bucket::AtRest(_) = self.buckets[i] else { continue };
            let expires = self.redis.expiry(&self.twin.keys.counter(member)).await;
            let Ok(expires) = u64::try_from(expires) else { continue };
            // Before Redis 7.0, a script reads expiries by a clock that it started with, and `travel` makes them later.
            let is_later = expires > self.expiries[i];
            let is_right = expires == self.expiries[i] || is_later && self.redis.is_too_old().await;
            assert!(is_right, "{expires} is not {} of {:?}", self.expiries[i], self.buckets[i]);
        }
    }

    fn keyspace(&self) -> Keyspace {
        let Twin { keys, .. } = &self.twin;
        let mut keyspace = Keyspace::from([self.twin.content()]);
        for (index, is_previous) in [(&keys.due, false), (&keys.previous, true)] {
            let held = self.counting().filter(|(_, held)| held.is_previous == is_previous);
            let scores: BTreeMap<_, _> = held.map(|(i, held)| (MEMBERS[i].to_owned(), place(held))).collect();
            if !scores.is_empty() {
                keyspace.insert(index.clone(), Content::Scores(scores));
            }
        }
        for (i, member) in MEMBERS.iter().enumerate() {
            if let (false, (Some(content), _)) =
                (self.evicted[i], self.written(i, self.buckets[i], self.numbers[i]))
            {
                keyspace.insert(keys.counter(member), content);
            }
        }
        keyspace
    }
}

/// Where a counting bucket stands in its index.
fn place(held: Counter) -> i64 {
    held.score as i64 + topup_twin::band_offset(held.band)
}
