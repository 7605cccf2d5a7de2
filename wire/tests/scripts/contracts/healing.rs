//! Corrupt keys: mended where they are, and no script is held up by them.

use std::collections::BTreeMap;

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use redis::Cmd;
use topup_twin::JUNK;
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit},
    namespace::Namespace,
    reply::{PublishReply, Verdict},
    scripts::{self, Look, Mended, Record},
};

use crate::{
    generators::{limit, limit_of, seeds},
    server::{Content, Keyspace, Redis, publish},
    travel::travel,
};

const LIMITS: &str = "topup:{topup}:limits";
const GENERATION: &str = "topup:{topup}:generation";
const DAEMONS: &str = "topup:{topup}:daemons";

pub(super) async fn look(redis: &mut Redis, keys: &ShardKeys, limit: &Limit) -> scripts::ShardLook {
    let now = redis.time().await;
    scripts::look_at_shard(&mut redis.connection, keys, limit, now).await.unwrap()
}

pub(super) async fn mend(
    redis: &mut Redis,
    keys: &ShardKeys,
    limit: &Limit,
    verified: Option<&Record>,
) -> Mended {
    let seen = look(redis, keys, limit).await.record;
    scripts::mend(&mut redis.connection, keys, limit, seen.as_ref(), verified).await.unwrap()
}

/// Has a record hold what nobody has published.
async fn corrupt(redis: &mut Redis, record: &str, rng: &mut StdRng) {
    let fields: Vec<String> = redis.try_ask(&["HKEYS", record]).await.unwrap_or_default();
    let junk = *JUNK.choose(rng).unwrap();
    let Some(ours) = fields.choose(rng) else { return };
    match rng.random_range(0..8) {
        0 => redis.ask::<()>(&["DEL", record]).await,
        1 => {
            redis.ask::<()>(&["DEL", record]).await;
            redis.ask::<()>(&["RPUSH", record, junk]).await;
        }
        2 => redis.ask::<()>(&["HDEL", record, ours]).await,
        3 => redis.ask::<()>(&["HSET", record, "foreign", junk]).await,
        4 => {
            let bytes: Vec<u8> = (0..[40, 53][rng.random_range(0..2)]).map(|_| rng.random()).collect();
            Cmd::hset(record, "packed", bytes).exec_async(&mut redis.connection).await.unwrap();
        }
        5 => {
            for i in 0..100 {
                redis.ask::<()>(&["HSET", record, &i.to_string(), junk]).await;
            }
        }
        // An older record, or a kind one.
        6 => redis.ask::<()>(&["HSET", record, "capacity", "1000000", "n", "1000", "anchor", "9"]).await,
        _ => redis.ask::<()>(&["HSET", record, ours, junk]).await,
    }
}

/// All but the counter of a record's changes.
fn without_generation(mut keyspace: Keyspace, record: &str) -> Keyspace {
    if let Some(Content::Fields(fields)) = keyspace.get_mut(record) {
        fields.remove("generation");
    }
    keyspace
}

#[tokio::test]
async fn a_corrupt_record_is_as_before_after_it_was_mended() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    for (_seed, mut rng) in seeds(40) {
        for algorithm in Algorithm::ALL {
            redis.ask::<()>(&["FLUSHALL"]).await;
            let mut limit = limit_of(algorithm, 50);
            publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
            for member in ["a", "b"] {
                let take = Operation::Take(rng.random_range(1..50));
                scripts::settle(&mut redis.connection, algorithm, &keys, member, take, true, None)
                    .await
                    .unwrap();
            }
            // A change leaves previous terms, and a previous index.
            if rng.random_bool(0.5) {
                limit.terms.capacity = topup_wire::limit::Capacity::new(60).unwrap();
                if !algorithm.has_windows() {
                    publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
                } else {
                    limit = limit_of(algorithm, 50);
                }
            }
            let Mended::Sound(verified) = mend(&mut redis, &keys, &limit, None).await else {
                panic!("{algorithm}: a published record is no corrupt one")
            };
            let before = redis.keyspace().await;
            for _ in 0..3 {
                corrupt(&mut redis, &keys.record, &mut rng).await;
            }
            if look(&mut redis, &keys, &limit).await.record.as_ref() == Some(&verified) {
                continue;
            }
            // Workers find no limit, or are told an error: nothing hangs.
            let take = Operation::Take(1);
            let _ = scripts::settle(&mut redis.connection, algorithm, &keys, "c", take, true, None).await;
            let _ = scripts::refill(&mut redis.connection, &keys, 9, Look::All).await;
            let mended = mend(&mut redis, &keys, &limit, Some(&verified)).await;
            let Mended::Repaired(record, what) = mended else { panic!("{algorithm}: {mended:?}") };
            assert!(!what.is_empty());
            assert_eq!(record.limit(&limit.name), Ok(limit.clone()), "{what}");
            let after = redis.keyspace().await;
            let fields =
                |keyspace: &Keyspace| without_generation(keyspace.clone(), &keys.record).remove(&keys.record);
            assert_eq!(fields(&after), fields(&before), "{algorithm}: {what}");
            assert_eq!(mend(&mut redis, &keys, &limit, Some(&record)).await, Mended::Sound(record.clone()));
            assert_eq!(look(&mut redis, &keys, &limit).await.record, Some(record));
        }
    }
}

#[tokio::test]
async fn a_record_that_nobody_has_verified_becomes_one_that_scripts_take() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    for (_seed, mut rng) in seeds(40) {
        for algorithm in Algorithm::ALL {
            redis.ask::<()>(&["FLUSHALL"]).await;
            let limit = limit_of(algorithm, 50);
            publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
            for _ in 0..rng.random_range(1..5) {
                corrupt(&mut redis, &keys.record, &mut rng).await;
            }
            if rng.random_bool(0.5) {
                mend(&mut redis, &keys, &limit, None).await;
                let again = mend(&mut redis, &keys, &limit, None).await;
                assert!(matches!(again, Mended::Sound(_)), "{algorithm}: {again:?}");
            } else {
                // A daemon that starts publishes over it.
                let published = publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
                assert_ne!(published, PublishReply::Busy);
                mend(&mut redis, &keys, &limit, None).await;
            }
            let conn = &mut redis.connection;
            let take =
                scripts::settle(conn, algorithm, &keys, "a", Operation::Take(20), true, None).await.unwrap();
            // The anchor of an absent bucket may be any.
            assert!(matches!(take.verdict, Verdict::Allowed | Verdict::Denied), "{algorithm}: {take:?}");
            scripts::refill(conn, &keys, 9, Look::All).await.unwrap();
        }
    }
}

/// A record that another daemon has just published is none of ours to mend.
#[tokio::test]
async fn a_record_published_since_it_was_seen_is_left_alone() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    publish(&mut redis.connection, &keys, &limit(5, "1/s"), None).await.unwrap();
    let seen = look(&mut redis, &keys, &limit(5, "1/s")).await.record;
    publish(&mut redis.connection, &keys, &limit(6, "1/s"), None).await.unwrap();
    let before = redis.keyspace().await;
    let mended =
        scripts::mend(&mut redis.connection, &keys, &limit(5, "1/s"), seen.as_ref(), seen.as_ref()).await;
    assert_eq!(mended.unwrap(), Mended::Outdated);
    assert_eq!(redis.keyspace().await, before);
}

#[tokio::test]
async fn odd_entries_hold_up_no_refill_and_are_cleaned() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    for keyed in [true, false] {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let limit = Limit { keyed, ..limit(10, "1/s") };
        publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
        let own = if keyed { "alice" } else { "" };
        let conn = &mut redis.connection;
        scripts::settle(conn, Algorithm::TokenBucket, &keys, own, Operation::Take(10), true, None)
            .await
            .unwrap();
        travel(&mut redis, &keys, 4_000_000).await;
        let now = redis.time().await;
        let scores = [
            "inf",
            "-inf",
            "1e300",
            "-1e300",
            "-9000000000000001",
            "9000000000000000",
            "2999999999999999.5",
            &(now + 60_000_000).to_string(),
        ];
        for (i, score) in scores.iter().enumerate() {
            for j in 0..50 {
                redis.ask::<()>(&["ZADD", &keys.due, score, &format!("{i}-{j}")]).await;
            }
            // Half of them have a counter, some of them an odd one.
            for (j, junk) in JUNK.iter().enumerate() {
                redis.ask::<()>(&["SET", &keys.counter(&format!("{i}-{j}")), junk]).await;
            }
            redis.ask::<()>(&["RPUSH", &keys.counter(&format!("{i}-49")), "x"]).await;
        }
        for pass in [Look::Due, Look::All] {
            let mut credited = 0;
            for _ in 0..100 {
                let refilled = scripts::refill(&mut redis.connection, &keys, 32, pass).await.unwrap();
                credited += refilled.credited;
                if refilled.again > refilled.now {
                    break;
                }
            }
            assert!(credited >= 1 || pass == Look::All, "{credited}");
        }
        let tokens: i64 = redis.ask(&["GET", &keys.counter(own)]).await;
        assert_eq!(tokens, 4);
        let mut cleaned = 0;
        loop {
            let odd = look(&mut redis, &keys, &limit).await.odd_members;
            if odd.is_empty() {
                break;
            }
            let more = scripts::clean(&mut redis.connection, &keys, keyed, &odd).await.unwrap();
            assert!(more > 0, "{odd:?}");
            cleaned += more;
        }
        println!("{cleaned} cleaned");
        assert!(cleaned >= 250);
        let left: BTreeMap<String, f64> = redis.ask(&["ZRANGE", &keys.due, "0", "-1", "WITHSCORES"]).await;
        assert!(left.values().all(|score| score % 3e15 < now as f64 + 1e7), "{left:?}");
        assert!(keyed || left.keys().eq([own]), "{left:?}");
        for member in left.keys() {
            let conn = &mut redis.connection;
            let peek = Operation::Peek(1);
            let settled =
                scripts::settle(conn, Algorithm::TokenBucket, &keys, member, peek, true, None).await.unwrap();
            assert!(settled.tokens <= 10);
        }
    }
}

#[tokio::test]
async fn a_poisoned_term_holds_up_no_script() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    for (_seed, mut rng) in seeds(300) {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let limit = limit(10, "1/s");
        publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
        let conn = &mut redis.connection;
        let (bucket, take) = (Algorithm::TokenBucket, Operation::Take(5));
        scripts::settle(conn, bucket, &keys, "a", take, true, None).await.unwrap();
        let odd = [0.0, -1.0, 0.5, 1e300, f64::INFINITY, f64::NAN, 1e15, 1.0, 5e-324];
        let mut packed = Vec::new();
        for place in 0..7 {
            match place {
                3 => packed.extend(4_f64.to_le_bytes()),
                4 => packed.extend(b"r0001"),
                _ => packed.extend(odd.choose(&mut rng).unwrap().to_le_bytes()),
            }
        }
        Cmd::hset(&keys.record, "packed", packed).exec_async(&mut redis.connection).await.unwrap();
        if rng.random_bool(0.5) {
            let field =
                ["capacity", "n", "p", "tick", "anchor", "anchored", "fills"].choose(&mut rng).unwrap();
            redis.ask::<()>(&["HSET", &keys.record, "packed", ""]).await;
            redis.ask::<()>(&["HSET", &keys.record, field, JUNK.choose(&mut rng).unwrap()]).await;
        }
        // An answer or an error, but no script that runs for ever.
        let conn = &mut redis.connection;
        for member in ["a", "b"] {
            let _ = scripts::settle(conn, bucket, &keys, member, take, true, None).await;
        }
        for pass in [Look::Due, Look::All] {
            let _ = scripts::refill(conn, &keys, 9, pass).await;
        }
        let _ = scripts::migrate(conn, &keys, &["a"]).await;
    }
}

#[tokio::test]
async fn shared_keys_are_mended() {
    let mut redis = Redis::start().await;
    let daemon = "topup:{topup}:daemon:host";
    let second = std::time::Duration::from_secs(1);
    for (key, words) in [
        (LIMITS, ["SET", LIMITS, "x"].as_slice()),
        (LIMITS, &["HSET", LIMITS, "api", "many"]),
        (LIMITS, &["HSET", LIMITS, "api", "1e3"]),
        (GENERATION, &["SET", GENERATION, "9223372036854775807"]),
        (GENERATION, &["SET", GENERATION, "-1"]),
        (GENERATION, &["SET", GENERATION, "inf"]),
        (GENERATION, &["SET", GENERATION, "1.5"]),
        (GENERATION, &["SADD", GENERATION, "x"]),
        (DAEMONS, &["SET", DAEMONS, "x"]),
        (DAEMONS, &["ZADD", DAEMONS, "inf", "ghost"]),
        (daemon, &["SET", daemon, "x"]),
    ] {
        redis.ask::<()>(&["FLUSHALL"]).await;
        scripts::announce(&mut redis.connection).await.unwrap();
        redis.ask::<()>(&["HSET", LIMITS, "mail", "2"]).await;
        scripts::heartbeat(&mut redis.connection, "host", second, &scripts::Health::default()).await.unwrap();
        redis.ask::<()>(&["DEL", if words[0] == "HSET" || words[0] == "ZADD" { "none" } else { key }]).await;
        redis.ask::<()>(words).await;
        let known = redis.time().await / 1_000 + 50;
        let mended = scripts::mend_shared(&mut redis.connection, "host", known).await.unwrap();
        assert_eq!(mended.repaired.len(), 1, "{words:?}: {mended:?}");
        assert!(mended.daemons <= 1, "{words:?}: {mended:?}");
        let conn = &mut redis.connection;
        if key == GENERATION {
            assert!(words[0] == "SADD" || scripts::generation(conn).await.unwrap() > Some(known));
        }
        scripts::heartbeat(conn, "host", second, &scripts::Health::default()).await.unwrap();
        let published = scripts::published_limits(conn).await.unwrap();
        assert!(published.len() == 1 || words[0] == "SET" && key == LIMITS, "{words:?}: {published:?}");
        let again = scripts::mend_shared(conn, "host", known).await.unwrap();
        assert_eq!((again.daemons, again.repaired), (1, Vec::new()), "{words:?}");
    }
}

/// As a client of something else may leave it, or an attacker.
#[tokio::test]
async fn a_state_of_junk_is_replaced_by_the_next_take() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    for (_seed, mut rng) in seeds(60) {
        // The log of a sliding window stays as it is, an error, until it expires.
        let replaced = Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::SlidingWindow);
        for algorithm in replaced {
            redis.ask::<()>(&["FLUSHALL"]).await;
            publish(&mut redis.connection, &keys, &limit_of(algorithm, 50), None).await.unwrap();
            let state = keys.state(algorithm, "a");
            let odd = [0.0, -1.0, 0.5, 1e300, f64::INFINITY, 1.8e15, 9e15, 1.0, 5e-324];
            let junk = match rng.random_range(0..3) {
                0 => JUNK.choose(&mut rng).unwrap().as_bytes().to_vec(),
                1 => (0..rng.random_range(0..60)).map(|_| rng.random()).collect(),
                _ => {
                    let numbers = (0..rng.random_range(1..6)).map(|_| *odd.choose(&mut rng).unwrap());
                    numbers.flat_map(f64::to_le_bytes).collect::<Vec<u8>>()
                }
            };
            Cmd::set(&state, &junk).exec_async(&mut redis.connection).await.unwrap();
            for operation in [Operation::Peek(1), Operation::Take(1), Operation::Take(1), Operation::Reset] {
                let conn = &mut redis.connection;
                let settled = scripts::settle(conn, algorithm, &keys, "a", operation, true, None).await;
                assert!(settled.is_ok(), "{algorithm}: {junk:?}: {operation:?}: {settled:?}");
            }
        }
    }
}
