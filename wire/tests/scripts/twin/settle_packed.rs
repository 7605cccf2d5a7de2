//! To the µs: replies of `settle_packed.lua` and `gcra_quick.lua`, by a clock that the test sets.

use rand::{RngExt, rngs::StdRng};
use redis::{Script, Value, from_redis_value};
use topup_twin::{AtRest, Bucket, State};
use topup_wire::{
    bucket::{Operation, Reservation},
    limit::{Algorithm, Limit, Supply},
    reply::{Settled, Verdict},
    scripts,
};

use super::{rated::content_at_rest, record::Twin};
use crate::{
    contracts::sources,
    generators::{ahead, any_size, capacity, limit, packed_rate, seeds},
    server::{Content, Redis},
};

const WORLDS: u64 = 24;
const STEPS: usize = 80;
/// A key whose state is the clock: the two numbers that TIME answers.
const CLOCK: &str = "clock";
/// Rates of which a token comes now and then, so that buckets are in every form.
const RATES: [&str; 6] = ["10/s", "1000/s", "3/s", "7/min", "60/min", "1000000/s"];

/// One bucket, twice.
struct World {
    redis: Redis,
    twin: Twin,
    script: Script,
    bucket: Bucket,
    now: u64,
    /// Replies of one number.
    short: usize,
}

fn any_limit(algorithm: Algorithm, rng: &mut StdRng) -> Limit {
    let mut limit = limit(rng.random_range(1..2_000), RATES[rng.random_range(0..RATES.len())]);
    if rng.random_bool(0.3) {
        (limit.terms.capacity, limit.terms.supply) = (capacity(rng), Supply::Rate(packed_rate(rng)));
    }
    limit.algorithm = algorithm;
    limit
}

#[tokio::test]
async fn a_short_reply_says_what_a_long_one_does() {
    let settle = sources::scripts().into_iter().find(|source| source.name == "settle").unwrap();
    says_what_a_long_one_does(Algorithm::TokenBucket, &settle.whole()).await;
}

#[tokio::test]
async fn a_short_reply_under_gcra_says_what_a_long_one_does() {
    says_what_a_long_one_does(Algorithm::Gcra, &sources::of(Algorithm::Gcra, true)).await;
}

async fn says_what_a_long_one_does(algorithm: Algorithm, whole: &str) {
    let set = whole.replace("call('TIME')", &format!("call('LRANGE', '{CLOCK}', 0, 1)"));
    assert_ne!(set, whole);
    let (mut redis, mut short) = (Redis::start().await, 0);
    for (_seed, mut rng) in seeds(WORLDS) {
        let twin = Twin::new(&mut redis, any_limit(algorithm, &mut rng)).await;
        let now = redis.time().await + 1_000_000;
        let script = Script::new(&set);
        let mut world = World { redis, twin, script, bucket: Bucket::Absent, now, short: 0 };
        for _ in 0..STEPS {
            world.step(&mut rng).await;
        }
        short += world.short;
        redis = world.redis;
    }
    assert!(short > WORLDS as usize * STEPS / 4, "{short} short replies");
}

// === impl World ===

impl World {
    async fn step(&mut self, rng: &mut StdRng) {
        let record = self.twin.record;
        let count = if rng.random_bool(0.5) { 1 } else { any_size(rng, record.capacity).max(1) };
        let operation = match rng.random_range(0..20) {
            0..8 => Operation::Take(count),
            8..16 => Operation::Share(count),
            16 => Operation::Refund(count),
            _ => ahead(&record, rng),
        };
        let (may_count, all) = (rng.random_bool(0.5), rng.random_bool(0.3));
        self.settle(operation, may_count, all).await;
        if rng.random_bool(0.3) {
            self.take_at_rest(if rng.random_bool(0.5) { 1 } else { count }).await;
        }
        let token = record.pace.p / record.pace.n;
        self.now += match rng.random_range(0..4) {
            0 => rng.random_range(0..3),
            1 => any_size(rng, 3 * token + 3),
            2 => token,
            _ => any_size(rng, 1 << 32),
        };
    }

    /// Whether a bucket at rest is a number.
    fn rests_as_number(&self) -> bool {
        self.twin.limit.algorithm == Algorithm::TokenBucket && self.twin.record.rests_as_number(self.now)
    }

    /// A bare take, of a bucket at rest that is an integer; whether it has the tokens or not.
    async fn take_at_rest(&mut self, count: u64) {
        if !self.rests_as_number() {
            return;
        }
        let by = count * scripts::units_at_rest(self.twin.record.pace);
        let Some(full_at) = topup_twin::move_at_rest(&mut self.bucket, by as i64) else { return };
        let state = self.twin.keys.counter("");
        let left: i64 = self.redis.ask(&["DECRBY", &state, &by.to_string()]).await;
        let said = scripts::read_number_at_rest(left, self.twin.record.terms_id);
        assert_eq!(said, scripts::AtRestNumber::Full(full_at));
    }

    /// The same of the twin.
    fn settle_twin(&mut self, operation: Operation, may_count: bool) -> Settled {
        let record = &self.twin.record;
        if self.twin.limit.algorithm == Algorithm::TokenBucket {
            return topup_twin::settle(record, &mut self.bucket, operation, may_count, None, self.now);
        }
        let mut at_rest = if let Bucket::AtRest(at_rest) = self.bucket { Some(at_rest) } else { None };
        let settled = AtRest::settle(record, &mut at_rest, operation, self.now);
        self.bucket = at_rest.map_or(Bucket::Absent, Bucket::AtRest);
        settled
    }

    async fn settle(&mut self, operation: Operation, may_count: bool, all: bool) {
        let (word, bound) = match operation {
            Operation::Take(_) => ("take", None),
            Operation::Share(_) => ("share", None),
            Operation::Refund(_) => ("refund", None),
            Operation::Reserve(Reservation { longest, .. }) => ("reserve", Some(longest)),
            Operation::Charge { most_debt, .. } => ("charge", Some(most_debt)),
            other => panic!("{other:?}"),
        };
        let (count, all) = (operation.count(), all || bound.is_some());
        let clock = [(self.now / 1_000_000).to_string(), (self.now % 1_000_000).to_string()];
        self.redis.ask::<()>(&["DEL", CLOCK]).await;
        self.redis.ask::<()>(&["RPUSH", CLOCK, &clock[0], &clock[1]]).await;
        let keys = &self.twin.keys;
        let algorithm = self.twin.limit.algorithm;
        let state = keys.state(algorithm, "");
        let mut call = self.script.key(&state);
        call.key(&keys.record);
        if algorithm == Algorithm::TokenBucket {
            call.key(&keys.due).key(&keys.previous);
        }
        call.arg(word).arg(count).arg(u8::from(may_count));
        if all {
            call.arg(bound.unwrap_or(0));
            match operation {
                Operation::Reserve(Reservation { in_hand_for, forfeit, .. }) => {
                    call.arg(in_hand_for);
                    if forfeit > 0 {
                        call.arg(forfeit);
                    }
                }
                _ => drop(call.arg("all")),
            }
        }
        let reply: Value = self.redis.call(&call).await;
        let (record, before) = (self.twin.record, self.bucket);
        let expected = self.settle_twin(operation, may_count);
        let takes = matches!(operation, Operation::Take(_) | Operation::Share(_));
        let brief = takes && expected.verdict == Verdict::Allowed && expected.granted == count;
        if let Value::Int(number) = reply {
            self.short += 1;
            assert!(brief && !all, "{operation:?} of {before:?} under {record:?}");
            let said = number as u64;
            assert_eq!(said, expected.headroom * 2 + u64::from(expected.counting), "{before:?}, {record:?}");
            let capacity = self.twin.limit.terms.capacity;
            let read = Settled::from_number(said, algorithm, capacity, record.pace, count);
            let tokens_of_3_us = 3 * record.pace.n / record.pace.p + 1;
            assert!(read.tokens.abs_diff(expected.tokens) <= tokens_of_3_us, "{read:?}, {expected:?}");
            assert_eq!(
                Settled { tokens: expected.tokens, now: self.now, wait: expected.wait, ..read },
                expected
            );
        } else {
            let long: Settled = from_redis_value(reply).unwrap();
            assert_eq!(long, expected, "{operation:?} of {before:?} under {record:?}");
            assert!(all || !brief || expected.headroom >= 1 << 52, "{expected:?} would be one number");
        }
        let mut keyspace = self.redis.keyspace().await;
        keyspace.remove(CLOCK);
        let content = match self.bucket {
            Bucket::Absent => None,
            Bucket::AtRest(at_rest) => Some(content_at_rest(&at_rest, self.rests_as_number())),
            Bucket::Counting(held) => Some(Content::Text(held.tokens.to_string())),
        };
        assert_eq!(keyspace.get(&state), content.as_ref());
        let place = |held: topup_twin::Counter| held.score as i64 + topup_twin::band_offset(held.band);
        let due = match self.bucket {
            Bucket::Counting(held) => Some(Content::Scores([(String::new(), place(held))].into())),
            _ => None,
        };
        assert_eq!(keyspace.get(&self.twin.keys.due), due.as_ref());
    }
}
