//! Takes of buckets at rest by one bare command, in a [`World`].

use redis::{RedisResult, Value, from_redis_value};
use topup_twin::{AtRest, Bucket, Record};
use topup_wire::scripts::{
    self, AtRestNumber, number_at_rest, number_expires_at, read_number_at_rest, rests_as_number,
    time_at_rest, units_at_rest,
};

use super::{
    rated::content_at_rest,
    world::{MEMBERS, World},
};
use crate::server::Content;

/// Takes that have met the same key again and again make it look like a bucket at rest.
const TOO_LOW: i64 = -100_000_000_000_000_000;

// === impl World ===

impl World {
    /// A worker's take at rest, where it may try one. With `first_at` above 0, a bucket without a key counts as full at
    /// that instant. Returns the full instant after it if the bucket was at rest.
    pub(crate) async fn take_at_rest(&mut self, i: usize, count: u64, first_at: u64) -> Option<u64> {
        let Record { capacity, pace, catch_up, terms_id: terms, .. } = self.twin.record;
        let first_at = if self.evicted[i] { 0 } else { first_at };
        let may = catch_up && rests_as_number(capacity, pace) && (1..=capacity).contains(&count);
        if !may || self.strays[i] < TOO_LOW || self.tokens(i) < TOO_LOW {
            return None;
        }
        let (mut out, state) = (Vec::new(), self.twin.keys.counter(MEMBERS[i]));
        let replies = scripts::encode_take_at_rest(&mut out, &state, terms, pace, count, first_at);
        let mut answers = self.redis.ask_bare(&out, replies).await;
        let left = answers.pop().unwrap();
        let written = replies > 1 && answers[0].as_ref().is_ok_and(|answer| *answer == Value::Okay);
        // A key may expire before its `DECRBY`, which then makes a counter of none.
        let met_number = matches!(left, Ok(Value::Int(left)) if left <= number_at_rest(0, 0));
        if written && met_number {
            self.write_first(i, first_at, number_expires_at(pace, first_at + time_at_rest(pace, count)))
                .await;
        }
        self.add(i, left, (count * units_at_rest(pace)) as i64).await
    }

    /// Gives the tokens of a take at rest back.
    pub(crate) async fn give(&mut self, i: usize, count: u64) {
        let pace = self.twin.record.pace;
        let (mut out, state) = (Vec::new(), self.twin.keys.counter(MEMBERS[i]));
        assert_eq!(scripts::encode_correction(&mut out, &state, pace, count, 0, 0), 1);
        let left = self.redis.ask_bare(&out, 1).await.pop().unwrap();
        self.add(i, left, -((count * units_at_rest(pace)) as i64)).await;
    }

    /// Lets the key of a bucket at rest live until `full_at`.
    pub(crate) async fn live_until(&mut self, i: usize, full_at: u64) {
        let pace = self.twin.record.pace;
        let (mut out, state) = (Vec::new(), self.twin.keys.counter(MEMBERS[i]));
        assert_eq!(scripts::encode_correction(&mut out, &state, pace, 0, 0, full_at), 2);
        let answers = self.redis.ask_bare(&out, 2).await;
        if answers[0] == Ok(Value::Int(1)) {
            self.expiries[i] = self.expiries[i].max(number_expires_at(pace, full_at));
        }
    }

    /// Whether a bare `DECR` with such a reply met a number at rest, which keeps what that adds.
    pub(super) fn moves_number(&mut self, i: usize, left: i64) -> bool {
        let met = self.numbers[i]
            && left <= number_at_rest(0, 0)
            && topup_twin::move_at_rest(&mut self.buckets[i], 1).is_some();
        if let (true, Bucket::AtRest(at_rest)) = (met, &self.buckets[i]) {
            assert_eq!(Content::Text(left.to_string()), content_at_rest(at_rest, true));
        }
        met
    }

    /// Terms are told apart by 8: nothing stays at rest for as many changes, since each is followed by a touch of all.
    pub(super) async fn forget_previous_numbers(&mut self) {
        let terms = self.twin.record.terms_id;
        for i in 0..MEMBERS.len() {
            let Bucket::AtRest(AtRest::Until { tag, .. }) = self.buckets[i] else { continue };
            if self.numbers[i] && terms - u64::from(tag) > 6 {
                self.evict(i).await;
            }
        }
    }

    /// A bucket without a key has been written as one that is full at `full_at`, to live until so many ms.
    async fn write_first(&mut self, i: usize, full_at: u64, expires: u64) {
        let now = self.redis.time().await;
        self.forget_expired(i, now);
        assert_eq!((self.buckets[i], self.strays[i]), (Bucket::Absent, 0));
        let tag = (self.twin.record.terms_id % 10_000) as u16;
        self.buckets[i] = Bucket::AtRest(AtRest::Until { tag, full_at, early: 0, hold: 0 });
        let state = self.twin.keys.counter(MEMBERS[i]);
        let seen = self.redis.expiry(&state).await;
        // It may be gone already.
        assert!(seen == -2 || seen as u64 == expires, "{seen} is not {expires}");
        (self.expiries[i], self.numbers[i]) = (expires, true);
    }

    /// Applies a bare command to the bucket that took off `by`, which may be negative. Returns the full instant if the
    /// bucket is at rest.
    async fn add(&mut self, i: usize, left: RedisResult<Value>, by: i64) -> Option<u64> {
        let left: RedisResult<i64> = left.map(|left| from_redis_value(left).unwrap());
        let number = left.as_ref().is_ok_and(|left| *left <= number_at_rest(0, 0));
        if left.is_ok() && !number {
            let now = self.redis.time().await;
            self.forget_expired(i, now);
        }
        let number_here = self.numbers[i];
        match &mut self.buckets[i] {
            Bucket::Absent => {
                self.strays[i] -= by;
                assert_eq!(left.unwrap(), self.strays[i]);
            }
            Bucket::Counting(held) => {
                held.tokens -= by;
                assert_eq!(left.unwrap(), held.tokens);
                self.evicted[i] = false;
            }
            bucket @ Bucket::AtRest(AtRest::Until { hold: 0, .. }) if number_here => {
                let Bucket::AtRest(AtRest::Until { tag, .. }) = *bucket else { unreachable!() };
                let full_at = topup_twin::move_at_rest(bucket, by).unwrap();
                assert_eq!(read_number_at_rest(left.unwrap(), tag.into()), AtRestNumber::Full(full_at));
                return Some(full_at);
            }
            at_rest => {
                let Err(error) = left else { panic!("{left:?} of {at_rest:?}") };
                assert!(scripts::is_not_a_counter(&error), "{error}");
            }
        }
        None
    }

    /// The number of a counter; 0 where there is none.
    fn tokens(&self, i: usize) -> i64 {
        if let Bucket::Counting(held) = self.buckets[i] { held.tokens } else { 0 }
    }
}
