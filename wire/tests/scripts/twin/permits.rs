//! `permits.lua` and its twin: random calls of several keys, with time that passes and a clock that steps back, and terms
//! that change. Every reply and every lease is the same.

use std::{collections::BTreeMap, time::Duration};

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use topup_twin::{PermitTerms, Permits};
use topup_wire::{
    keyspace::ShardKeys,
    limit::{Algorithm, Capacity, Limit, PermitTtl, Supply, Terms},
    namespace::Namespace,
    scripts::{self, KeyPermits, PermitCounts, PermitOperation, PermitState},
};

use crate::{
    generators::{self, seeds},
    server::Redis,
};

const SEEDS: u64 = 12;
const STEPS: u64 = 250;
const KEYS: [&str; 2] = ["a", "}:p:b"];

fn limit(places: u64, ttl: u64) -> Limit {
    let ttl = PermitTtl::new(Duration::from_micros(ttl)).unwrap();
    let terms = Terms { capacity: Capacity::new(places).unwrap(), supply: Supply::Permits(ttl) };
    Limit { keyed: true, algorithm: Algorithm::Concurrency, terms, ..generators::limit(5, "5/s") }
}

/// Both sides.
struct World {
    redis: Redis,
    keys: ShardKeys,
    twins: BTreeMap<&'static str, Permits>,
    terms: PermitTerms,
    /// The instant of the last change, and the longest ttl told before it.
    changed: (u64, u64),
}

impl World {
    /// The terms at `now`.
    fn terms(&self, now: u64) -> PermitTerms {
        let (since, told) = self.changed;
        let longest = self.terms.ttl.max(told);
        PermitTerms { longest: if now >= since + longest { self.terms.ttl } else { longest }, ..self.terms }
    }

    async fn publish(&mut self, places: u64, ttl: u64) {
        scripts::publish(&mut self.redis.connection, &self.keys, &limit(places, ttl), None, None)
            .await
            .unwrap();
        if (places, ttl) != (self.terms.limit, self.terms.ttl) {
            let since: u64 = self.redis.ask(&["HGET", &self.keys.record, "since"]).await;
            let (before, told) = self.changed;
            let told = if since >= before + told { 0 } else { told };
            self.changed = (since, told.max(self.terms.ttl));
            (self.terms.limit, self.terms.ttl) = (places, ttl);
        }
    }

    /// Makes `by` µs pass, or steps the clock back.
    async fn travel(&mut self, by: i64) {
        for set in self.sets().into_iter().filter(|set| !set.contains(":q:")) {
            for (member, score) in self.scores(&set).await {
                let score = score.saturating_add_signed(-by).to_string();
                self.redis.ask::<()>(&["ZADD", &set, &score, &member]).await;
            }
        }
        let since = self.changed.0.saturating_add_signed(-by);
        self.redis.ask::<()>(&["HSET", &self.keys.record, "since", &since.to_string()]).await;
        self.changed.0 = since;
        for twin in self.twins.values_mut() {
            for (.., till) in twin.holders.iter_mut().chain(&mut twin.waiters) {
                *till = till.saturating_add_signed(-by);
            }
        }
    }

    fn sets(&self) -> Vec<String> {
        let of_keys = KEYS.iter().flat_map(|key| self.keys.permits_of(key));
        of_keys.chain([self.keys.permits()]).collect()
    }

    async fn scores(&mut self, set: &str) -> Vec<(String, u64)> {
        let rows: Vec<(String, f64)> = self.redis.ask(&["ZRANGE", set, "0", "-1", "WITHSCORES"]).await;
        rows.into_iter().map(|(member, score)| (member, score as u64)).collect()
    }

    /// Whether all leases have ended by now, so that their key has expired. On a busy machine, time passes between two steps.
    async fn are_over(&mut self, leases: &[(String, u64)]) -> bool {
        let now = self.redis.time().await;
        leases.iter().all(|(_, till)| *till < now)
    }

    /// Every set is as the twin has it.
    async fn compare(&mut self) {
        for key in KEYS {
            let twin = self.twins[key].clone();
            let [holders, order, leases] = self.keys.permits_of(key);
            let members = |(id, places, till): &(String, u64, u64)| {
                let name = |i: u64| if i == 1 { id.clone() } else { format!("{id}:{i}") };
                (1..=*places).map(|i| (name(i), *till)).collect::<Vec<_>>()
            };
            let mut expected: Vec<_> = twin.holders.iter().flat_map(members).collect();
            expected.sort();
            let mut held = self.scores(&holders).await;
            held.sort();
            if !held.is_empty() || !self.are_over(&expected).await {
                assert_eq!(held, expected, "{key}");
            }
            let order: Vec<String> = self.scores(&order).await.into_iter().map(|(id, _)| id).collect();
            let leases: BTreeMap<String, u64> = self.scores(&leases).await.into_iter().collect();
            let expected: Vec<_> = twin.waiters.iter().map(|(id, _, till)| (id.clone(), *till)).collect();
            if !leases.is_empty() || !self.are_over(&expected).await {
                let waiters: Vec<_> = order.iter().map(|id| (id.clone(), leases[id])).collect();
                assert_eq!((waiters, leases.len()), (expected, twin.waiters.len()), "{key}");
            }
            for set in [&holders, &self.keys.permits()] {
                let rows = self.scores(set).await;
                assert!(rows.is_empty() || self.redis.expiry(set).await > 0, "{set} stays");
            }
        }
    }

    async fn step(&mut self, rng: &mut StdRng, ids: &mut Vec<(&'static str, String, u64)>) {
        let waits = rng.random_bool(0.7);
        let operation = match rng.random_range(0..10) {
            0..=4 => PermitOperation::Acquire { waits },
            5..=7 => PermitOperation::Renew,
            _ => PermitOperation::Release,
        };
        let is_new =
            matches!(operation, PermitOperation::Acquire { .. }) && rng.random_bool(0.8) || ids.is_empty();
        let chosen = if is_new {
            let places = rng.random_range(1..=3);
            ids.push((KEYS.choose(rng).unwrap(), format!("x{}-{places}", ids.len()), places));
            vec![ids.last().unwrap().clone()]
        } else {
            // Permits of both keys in one call, as a worker renews them.
            let first = ids.len().saturating_sub(12);
            let count = rng.random_range(1..=4);
            let mut chosen: Vec<_> = (0..count).map(|_| ids[first..].choose(rng).unwrap().clone()).collect();
            chosen.sort();
            chosen.dedup();
            chosen
        };
        let mut groups: Vec<KeyPermits> = Vec::new();
        for (key, id, _) in &chosen {
            match groups.iter_mut().find(|group| group.member == *key) {
                Some(group) => group.ids.push(id.clone()),
                None => groups.push(KeyPermits { member: (*key).to_owned(), ids: vec![id.clone()] }),
            }
        }
        let reply =
            scripts::permits(&mut self.redis.connection, &self.keys, operation, &groups).await.unwrap();
        let (terms, now) = (self.terms(reply.now), reply.now);
        let mut states = Vec::new();
        let released = |group: &KeyPermits, twins: &mut BTreeMap<_, Permits>| {
            let ids = group.ids.iter().map(String::as_str);
            twins.get_mut(group.member.as_str()).unwrap().release(terms, ids, now)
        };
        if operation == PermitOperation::Release {
            states = groups.iter().flat_map(|group| released(group, &mut self.twins)).collect();
        }
        for (key, id, places) in &chosen {
            let twin = self.twins.get_mut(key).unwrap();
            match operation {
                PermitOperation::Acquire { waits } => {
                    states.push(twin.acquire(terms, id, *places, waits, now))
                }
                PermitOperation::Renew => states.push(twin.renew(terms, id, *places, now)),
                PermitOperation::Release => {}
            }
        }
        assert_eq!(
            (reply.states, reply.ttl, reply.limit),
            (states, terms.ttl, terms.limit),
            "{operation:?} {groups:?}"
        );
        let first = &self.twins[chosen[0].0];
        assert_eq!((reply.held, reply.waiting), (first.held(), first.waiters.len() as u64));
    }
}

#[tokio::test]
async fn permits_do_what_their_twin_does() {
    let mut redis = Redis::start().await;
    for (_seed, mut rng) in seeds(SEEDS) {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let keys = ShardKeys::new(Namespace::default(), &"gpu".parse().unwrap(), 0);
        let twins = KEYS.map(|key| (key, Permits::default())).into();
        let terms = PermitTerms { limit: 0, ttl: 0, longest: 0 };
        let mut world = World { redis, keys, twins, terms, changed: (0, 0) };
        world.publish(3, 60_000_000).await;
        let mut ids = Vec::new();
        for step in 0..STEPS {
            match rng.random_range(0..20) {
                0 => world.travel(rng.random_range(0..40_000_000)).await,
                1 => world.travel(-rng.random_range(0..90_000_000)).await,
                2 => world.travel(rng.random_range(0..2_500_000)).await,
                3 => {
                    world
                        .publish(rng.random_range(1..=5), *[30_000_000, 60_000_000].choose(&mut rng).unwrap())
                        .await
                }
                _ => world.step(&mut rng, &mut ids).await,
            }
            if step % 10 == 0 {
                world.compare().await;
            }
        }
        redis = world.redis;
    }
}

#[tokio::test]
async fn a_limit_of_another_kind_gives_no_permit_and_a_peek_changes_nothing() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"gpu".parse().unwrap(), 0);
    let ask = [KeyPermits { member: "a".to_owned(), ids: vec!["x-2".to_owned()] }];
    let acquire = PermitOperation::Acquire { waits: true };
    let unpublished = scripts::permits(&mut redis.connection, &keys, acquire, &ask).await.unwrap();
    assert_eq!((unpublished.ttl, unpublished.states), (0, Vec::new()));
    let other = generators::limit(5, "5/s");
    scripts::publish(&mut redis.connection, &keys, &other, None, None).await.unwrap();
    assert_eq!(scripts::permits(&mut redis.connection, &keys, acquire, &ask).await.unwrap().ttl, 0);
    scripts::drop_record(&mut redis.connection, &keys).await.unwrap();
    scripts::publish(&mut redis.connection, &keys, &limit(3, 60_000_000), None, None).await.unwrap();
    let held = scripts::permits(&mut redis.connection, &keys, acquire, &ask).await.unwrap();
    assert_eq!((held.states, held.held), (vec![PermitState::Held], 2));
    let before = redis.keyspace().await;
    let peeked = scripts::peek_permits(&mut redis.connection, &keys, "a").await.unwrap();
    assert_eq!((peeked.held, peeked.limit, redis.keyspace().await), (2, 3, before));
    let counts = scripts::count_permits(&mut redis.connection, &keys, peeked.now, 10).await.unwrap();
    assert_eq!(counts, PermitCounts { keys: 1, held: 2, waiting: 0 });
}
