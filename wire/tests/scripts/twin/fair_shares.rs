//! `fair_shares.lua` and its twin: random operations of several keys, with time that passes and a clock that steps back, and
//! terms and weights that change. Every reply and every number of the state is the same.

use std::{collections::HashMap, time::Duration};

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use redis::Script;
use topup_twin::{FairShares, Record, ShareTerms};
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, Capacity, Limit, OnChange, Parts, Supply, Terms},
    namespace::Namespace,
    reply::Verdict,
    scripts,
};

use crate::{
    generators::{self, seeds},
    server::Redis,
    travel::travel,
};

const SEEDS: u64 = 12;
const STEPS: u64 = 300;
const KEYS: [&str; 7] = ["acme", "beta", "free-1", "free-2", "free-xyz", "=", "somebody else"];

/// Moves the instants of a state.
const TRAVEL: &str = "
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
      local text = redis.call('HGET', KEYS[1], field)
      local instants = not text and {} or field == '=' and {1, 6, 7, 9} or {5}
      for _, i in ipairs(instants) do
        local instant = struct.unpack('<d', text, 8 * i - 7)
        if instant > 0 then
          instant = instant - ARGV[1]
          text = string.sub(text, 1, 8 * i - 8) .. struct.pack('<d', instant) .. string.sub(text, 8 * i + 1)
        end
        if i == 9 then redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(instant / 1000))) end
      end
      if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], field, text) end
    end";

fn limit(rng: &mut StdRng) -> Limit {
    let names = ["acme", "beta", "free-*", "free-x*", "="].iter().filter(|_| rng.random_bool(0.8));
    let names: Vec<String> = names.chain(&["*"]).map(|name| (*name).to_owned()).collect();
    let parts = names.into_iter().map(|name| (name, rng.random_range(1..=7))).collect::<Vec<_>>();
    let weights: u64 = parts.iter().map(|(_, weight)| weight).sum();
    let capacity = Capacity::new(weights * rng.random_range(1..=30) + rng.random_range(0..3)).unwrap();
    let rate = ["7/3s", "50/s", "1000/s", "1/m", "40000/s"].choose(rng).unwrap().parse().unwrap();
    Limit {
        keyed: true,
        algorithm: Algorithm::FairShares,
        terms: Terms { capacity, supply: Supply::Rate(rate) },
        on_change: *[OnChange::Keep, OnChange::Proportional, OnChange::Reset].choose(rng).unwrap(),
        tick: Duration::from_millis(*[5, 100].choose(rng).unwrap()),
        parts: Parts::new(parts).unwrap(),
        ..generators::limit(5, "5/s")
    }
}

/// Both sides.
struct World {
    redis: Redis,
    keys: ShardKeys,
    limit: Limit,
    terms: ShareTerms,
    twin: Option<FairShares>,
}

impl World {
    async fn new(mut redis: Redis, rng: &mut StdRng) -> Self {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let keys = ShardKeys::new(Namespace::default(), &"api".parse().unwrap(), 0);
        let limit = limit(rng);
        let terms = ShareTerms::new(&limit, Record::new(&limit, 0));
        let mut world = Self { redis, keys, limit, terms, twin: None };
        world.publish().await;
        world
    }

    async fn publish(&mut self) {
        scripts::publish(&mut self.redis.connection, &self.keys, &self.limit, None, None).await.unwrap();
        self.read_record().await;
    }

    async fn read_record(&mut self) {
        let (since, anchor, anchored) =
            self.redis.ask(&["HMGET", &self.keys.record, "since", "anchor", "anchored"]).await;
        let record = Record { since, anchor, anchored, ..Record::new(&self.limit, since) };
        self.terms = ShareTerms::new(&self.limit, record);
    }

    fn state(&self) -> String {
        self.keys.state(Algorithm::FairShares, "")
    }

    /// Makes `by` µs pass, or steps the clock back.
    async fn travel(&mut self, by: i64) {
        travel(&mut self.redis, &self.keys, by).await;
        let state = self.state();
        let script = Script::new(TRAVEL);
        let mut call = script.key(&state);
        self.redis.call::<()>(call.arg(by)).await;
        self.read_record().await;
        let Some(twin) = &mut self.twin else { return };
        let parts = twin.parts.iter_mut().map(|part| &mut part.at);
        let own = [&mut twin.since, &mut twin.at, &mut twin.dealt, &mut twin.expires];
        for instant in own.into_iter().chain(parts).filter(|instant| **instant > 0) {
            *instant = instant.saturating_add_signed(-by);
        }
    }

    async fn step(&mut self, rng: &mut StdRng) {
        let key = *KEYS.choose(rng).unwrap();
        let index = self.terms.index_of(key);
        let most = self.terms.parts()[index].capacity + 2;
        let count = if rng.random_bool(0.5) { rng.random_range(0..=most) } else { most / 2 };
        let operation = match rng.random_range(0..16) {
            0..=5 => Operation::Take(count),
            6..=9 => Operation::Share(count),
            10 => Operation::Charge { count, most_debt: 7 },
            11..=13 => Operation::Peek(count),
            14 => Operation::Refund(count),
            _ => Operation::Reset,
        };
        let connection = &mut self.redis.connection;
        let settled =
            scripts::settle(connection, Algorithm::FairShares, &self.keys, key, operation, false, None)
                .await
                .unwrap();
        let now = settled.now;
        if self.twin.as_ref().is_some_and(|twin| now / 1_000 > twin.expires.div_ceil(1_000)) {
            self.twin = None;
        }
        let before = self.twin.clone();
        let expected = FairShares::settle(&self.terms, &mut self.twin, key, operation, now, None);
        assert_eq!(settled, expected, "{key}: {operation:?}\n{before:#?}");
        assert_ne!(settled.verdict, Verdict::Unknown);
    }

    /// Every number is as the twin has it.
    async fn compare(&mut self) {
        let state = self.state();
        let held: HashMap<Vec<u8>, Vec<u8>> = self.redis.ask(&["HGETALL", &state]).await;
        let Some(twin) = &self.twin else {
            assert!(held.is_empty());
            return;
        };
        if held.is_empty() {
            // It has just expired.
            assert!(self.redis.time().await >= twin.expires);
            return;
        }
        let doubles = |text: &[u8]| -> Vec<f64> {
            text.as_chunks::<8>().0.iter().map(|double| f64::from_le_bytes(*double)).collect()
        };
        let FairShares { since, capacity, pace, tokens, at, dealt, period, expires, lends, .. } = twin;
        let whole = [since, capacity, &pace.n, &pace.p, tokens, at, dealt, period, expires];
        let whole: Vec<f64> =
            whole.map(|number| *number as f64).into_iter().chain([f64::from(u8::from(*lends))]).collect();
        assert_eq!(doubles(&held[&b"="[..]][..80]), whole);
        assert_eq!(held.len(), 1 + twin.parts.len());
        if *since != self.terms.record.since {
            // The parts are still those of earlier terms.
            return;
        }
        for (part, one) in self.terms.parts().iter().zip(&twin.parts) {
            let numbers = [one.capacity, one.pace.n, one.pace.p, one.tokens, one.at, one.loan];
            let mut expected = numbers.map(|number| number as f64).to_vec();
            expected.extend([one.used as f64, one.carry]);
            assert_eq!(doubles(&held[format!(":{}", part.name).as_bytes()]), expected, "{}", part.name);
        }
        assert!(self.redis.expiry(&state).await > 0);
    }

    /// The list of all parts is what peeks tell, without the loans.
    async fn list(&mut self) {
        let states = scripts::part_states(&mut self.redis.connection, &self.keys).await.unwrap();
        let names: Vec<&str> = self.terms.parts().iter().map(|part| part.name.as_str()).collect();
        assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), names);
        for (state, part) in states.iter().zip(self.terms.parts()) {
            assert!(state.capacity == part.capacity && state.tokens <= part.capacity, "{state:?}");
        }
    }
}

#[tokio::test]
async fn fair_shares_do_what_their_twin_does() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(SEEDS) {
        let mut world = World::new(redis, &mut rng).await;
        for step in 0..STEPS {
            match rng.random_range(0..24) {
                0 => world.travel(rng.random_range(0..4_000_000)).await,
                1 => world.travel(rng.random_range(0..40_000)).await,
                2 => world.travel(rng.random_range(0..200_000)).await,
                3 if rng.random_bool(0.3) => world.travel(-rng.random_range(0..3_000_000)).await,
                4 if rng.random_bool(0.5) => {
                    let name = world.limit.name;
                    world.limit = Limit { name, ..limit(&mut rng) };
                    world.publish().await;
                }
                5 => world.list().await,
                _ => world.step(&mut rng).await,
            }
            if step % 5 == 0 {
                world.compare().await;
            }
        }
        redis = world.redis;
    }
}

#[tokio::test]
async fn another_limit_has_no_parts_and_a_peek_changes_nothing() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"api".parse().unwrap(), 0);
    let conn = &mut redis.connection;
    assert_eq!(scripts::part_states(conn, &keys).await.unwrap(), []);
    let take = |count| Operation::Take(count);
    let ours = Algorithm::FairShares;
    let unknown = scripts::settle(conn, ours, &keys, "acme", take(1), false, None).await.unwrap();
    assert_eq!(unknown.verdict, Verdict::Unknown);
    scripts::publish(conn, &keys, &generators::limit(5, "5/s"), None, None).await.unwrap();
    let unknown = scripts::settle(conn, ours, &keys, "acme", take(1), false, None).await.unwrap();
    assert_eq!(
        (unknown.verdict, scripts::part_states(conn, &keys).await.unwrap()),
        (Verdict::Unknown, vec![])
    );

    scripts::drop_record(conn, &keys).await.unwrap();
    let parts = Parts::new([("acme".to_owned(), 3), ("*".to_owned(), 1)]).unwrap();
    let shared = Limit { keyed: true, algorithm: ours, parts, ..generators::limit(40, "4/h") };
    scripts::publish(conn, &keys, &shared, None, None).await.unwrap();
    let whole = scripts::settle(conn, ours, &keys, "acme", take(31), false, None).await.unwrap();
    assert_eq!((whole.verdict, whole.capacity), (Verdict::ExceedsCapacity, 30));
    let own = scripts::settle(conn, ours, &keys, "acme", take(30), false, None).await.unwrap();
    assert_eq!((own.verdict, own.tokens), (Verdict::Allowed, 0));
    let before = redis.keyspace().await;
    let conn = &mut redis.connection;
    let peeked = scripts::settle(conn, ours, &keys, "acme", Operation::Peek(1), false, None).await.unwrap();
    // Three tokens an hour are its own, and the fourth is lent.
    assert_eq!((peeked.verdict, peeked.tokens), (Verdict::Denied, 0));
    assert!(peeked.wait <= 900_000_010 && peeked.wait > 600_000_000, "{peeked:?}");
    let states = scripts::part_states(conn, &keys).await.unwrap();
    let found: Vec<_> = states.iter().map(|state| (state.name.as_str(), state.tokens, state.loan)).collect();
    assert_eq!(found, [("acme", 0, 0), ("*", 10, 0)]);
    assert_eq!(redis.keyspace().await, before);
}
