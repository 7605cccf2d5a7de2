//! Keys corrupted at random, while workers take from other buckets: all of them are healed within seconds, and those
//! workers notice nothing.
//!
//! By hand, with more of them:
//! `TOPUP_TEST_CORRUPTIONS=20000 cargo test -p topup-tests --test e2e -- workers::healing --nocapture`

use std::{collections::BTreeSet, env, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use redis::Cmd;
use topup_tests::{Redis, SOON, Seed, Stalls, clock, eventually};
use topup_twin::JUNK;
use topup_wire::{
    keyspace::ShardKeys,
    limit::{Algorithm, Limit},
    namespace::Namespace,
    scripts,
};

use super::{
    fixture::{Fixture, now},
    oracle::{Oracle, no_errors},
};

const CONFIG: &str = "[limit.steady]\ncapacity = 10\nrate = \"100/s\"\n\
                      [limit.api]\ncapacity = 50\nrate = \"5/s\"\n\
                      [limit.user]\nkeyed = true\nshards = 4\ncapacity = 20\nrate = \"1/s\"\n\
                      [limit.pure]\ncapacity = 20\nrate = \"10/s\"\ncatch_up = false\n\
                      [limit.lazy]\nkeyed = true\nalgorithm = \"lazy-token-bucket\"\ncapacity = 20\nrate = \"1/s\"\n\
                      [limit.even]\nkeyed = true\nalgorithm = \"gcra\"\ncapacity = 20\nrate = \"1/s\"\n";
const TARGETS: [&str; 5] = ["api", "user", "pure", "lazy", "even"];
/// Corruptions of one run, unless the environment names others, and of one batch.
const CORRUPTIONS: usize = 1_000;
const BATCH: usize = 250;
/// The promise: healed within so long of the last corruption.
const HEALED: Duration = Duration::from_secs(5);
const KEYS: [&str; 6] = ["alice", "bob", "carol", "dave", "eve", "fred"];

/// A shard of a limit that is corrupted.
struct Target {
    limit: Limit,
    keys: ShardKeys,
}

impl Target {
    async fn all(redis: &Redis) -> Vec<Self> {
        let mut targets = Vec::new();
        for name in TARGETS {
            let name = name.parse().unwrap();
            let limit = scripts::read_limit(&mut redis.connection(), &name).await.unwrap().unwrap().limit;
            for shard in 0..limit.shards.get() {
                targets.push(Self {
                    limit: limit.clone(),
                    keys: ShardKeys::new(Namespace::default(), &name, shard),
                });
            }
        }
        targets
    }

    /// The key of any bucket of the shard.
    fn bucket(&self, rng: &mut StdRng) -> String {
        let member = if self.limit.keyed { KEYS.choose(rng).unwrap() } else { &"" };
        self.keys.state(self.limit.algorithm, member)
    }

    /// Writes what no topup writes to one key, or removes it.
    async fn corrupt(&self, redis: &Redis, rng: &mut StdRng) {
        let (junk, bucket) = (*JUNK.choose(rng).unwrap(), self.bucket(rng));
        let (record, due) = (&*self.keys.record, &*self.keys.due);
        let field = [
            "packed",
            "capacity",
            "n",
            "p",
            "terms",
            "since",
            "anchor",
            "former",
            "rate",
            "algorithm",
            "generation",
        ];
        let field = *field.choose(rng).unwrap();
        let (key, foreign) =
            ([record, due, &bucket][rng.random_range(0..3)], format!("foreign{}", rng.random_range(0..99)));
        let score = *["inf", "-inf", "1e300", "-1e300", "-1", "1", "2999999999999999.5", "2500000000000000"]
            .choose(rng)
            .unwrap();
        let shared = *["generation", "limits", "daemons"].choose(rng).unwrap();
        let shared = format!("topup:{{topup}}:{shared}");
        let own = self.limit.name.as_str();
        let is_token_bucket = self.limit.algorithm == Algorithm::TokenBucket;
        let words: &[&str] = match rng.random_range(0..14) {
            0 => &["DEL", key],
            1 => &["HSET", record, field, junk],
            2 => &["HDEL", record, field],
            3 => &["HSET", record, &foreign, junk],
            // Stale: an older and kinder record.
            4 => &["HSET", record, "capacity", "100000", "n", "1000", "rate", "1000/s", "terms", "1"],
            5 | 6 if is_token_bucket => &["ZADD", due, score, &foreign],
            7 if is_token_bucket => &["ZADD", due, score, if self.limit.keyed { "alice" } else { "" }],
            8 => &["SET", &bucket, junk],
            9 => &["SET", &bucket, "-1999999999999999999"],
            10 => &["HDEL", "topup:{topup}:limits", own],
            11 => &["HSET", "topup:{topup}:limits", &foreign, junk],
            12 => &["SET", &shared, junk],
            // A key of a wrong type.
            _ => {
                redis.ask::<()>(&["DEL", key]).await;
                &[["SADD", key, junk], ["RPUSH", key, junk]][rng.random_range(0..2)]
            }
        };
        let mut command = Cmd::new();
        // An earlier corruption may have left a key of another type.
        let _ = command.arg(words).exec_async(&mut redis.connection()).await;
    }

    /// Says what is not healed yet.
    async fn check(&self, redis: &Redis) -> Result<(), String> {
        let conn = &mut redis.connection();
        let name = &self.keys.record;
        let look = scripts::look_at_shard(conn, &self.keys, &self.limit, now(redis).await).await;
        let look = look.map_err(|error| format!("{name}: {error}"))?;
        let record = look.record.ok_or_else(|| format!("{name}: no record"))?;
        let limit = record.limit(&self.limit.name)?;
        if limit != self.limit
            || record.is_frozen()
            || !look.has_sound_indexes
            || !look.odd_members.is_empty()
        {
            return Err(format!("{name}: {limit:?}, {:?}", look.odd_members));
        }
        for key in KEYS {
            let bucket = self.keys.state(self.limit.algorithm, if self.limit.keyed { key } else { "" });
            let kind: String = redis.ask(&["TYPE", &bucket]).await;
            let wrong = !["string", "none"].contains(&&*kind);
            // No sweep looks at the buckets of other algorithms.
            if wrong && self.limit.algorithm == Algorithm::TokenBucket {
                return Err(format!("{bucket} is a {kind}"));
            }
            if wrong {
                redis.ask::<()>(&["DEL", &bucket]).await;
            }
        }
        Ok(())
    }
}

async fn healed(redis: &Redis, targets: &[Target]) -> Result<(), String> {
    let conn = &mut redis.connection();
    let registered = scripts::published_limits(conn).await.map_err(|error| error.to_string())?;
    let names: BTreeSet<&str> = registered.keys().map(topup_wire::limit::LimitName::as_str).collect();
    if !TARGETS.iter().all(|name| names.contains(name)) {
        return Err(format!("registered: {names:?}"));
    }
    let polled = scripts::poll(conn).await.map_err(|error| error.to_string())?;
    if polled.daemons != 1 || polled.generation.is_none_or(|generation| generation > 1 << 50) {
        return Err(format!("{polled:?}"));
    }
    for target in targets {
        target.check(redis).await?;
    }
    Ok(())
}

/// µs of Redis for each heartbeat of the daemon, over many of them.
async fn cost(redis: &Redis) -> f64 {
    redis.reset_stats().await;
    eventually(SOON, async || redis.command_calls("pexpire").await >= 40).await;
    let spent = redis.command_usec("evalsha").await;
    spent as f64 / redis.command_calls("pexpire").await as f64
}

#[tokio::test]
async fn a_thousand_corruptions_are_healed_and_other_buckets_keep_law_1() {
    let (seed, stalls) = (Seed::new(), Stalls::watch());
    let mut rng = StdRng::seed_from_u64(seed.number());
    let many = env::var("TOPUP_TEST_CORRUPTIONS").map_or(CORRUPTIONS, |many| many.parse().unwrap());
    let fixture = Fixture::set(CONFIG).await;
    let redis = &fixture.redis;
    let targets = Target::all(redis).await;
    healed(redis, &targets).await.unwrap();
    let before = cost(redis).await;
    let workers = fixture.workers(2, "steady", Duration::from_millis(12)).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..many.div_ceil(BATCH) {
        for name in TARGETS {
            for key in KEYS {
                let bucket = fixture.bucket(name);
                let bucket = if targets
                    .iter()
                    .any(|target| target.limit.keyed && *name == *target.limit.name.as_str())
                {
                    bucket.key(key)
                } else {
                    bucket
                };
                // One bucket at rest, and one that counts.
                let _ = bucket.take(rng.random_range(1..4)).await;
            }
        }
        for _ in 0..BATCH {
            targets.choose(&mut rng).unwrap().corrupt(redis, &mut rng).await;
        }
        let corrupted = clock::now();
        let said = async || {
            healed(redis, &targets).await.map_err(|error| {
                let lines = fixture.daemon.lines();
                format!("{error}\n{}", lines[lines.len().saturating_sub(30)..].join("\n"))
            })
        };
        eventually(SOON, said).await;
        slowest = slowest.max(Duration::from_micros(clock::now() - corrupted));
        // Every bucket is decided again.
        for target in &targets {
            let bucket = fixture.bucket(target.limit.name.as_str());
            let bucket = if target.limit.keyed { bucket.key("zoe") } else { bucket };
            let _ = eventually(SOON, async || bucket.take(1).await).await;
        }
    }
    let attempts = workers.stop().await;
    no_errors(&attempts);
    let judgement = Oracle::new(10, 100.0).judge(&attempts).never_over();
    let normal = 2.0 * before + 100.0;
    let is_normal = async || Some(cost(redis).await).filter(|cost| *cost < normal);
    let after = eventually(SOON, is_normal).await;
    println!(
        "{many} corruptions, healed within {slowest:?}; {} of {} takes of others allowed, excess {:.2}; {before:.0} µs of \
         Redis for each heartbeat before, {after:.0} µs after",
        judgement.allowed,
        attempts.len(),
        judgement.excess,
    );
    let bound = stalls.allow(HEALED);
    assert!(slowest < bound, "{slowest:?}, {bound:?} allowed");
    let said = fixture.daemon.lines();
    assert!(said.iter().any(|line| line.contains("repaired: limit ")), "{said:?}");
    let lines = said.iter().filter(|line| line.contains("WARN") || line.contains("ERROR")).count();
    assert!(lines < many, "{lines} lines");
}
