//! Parsers of what others write, for fuzzing.

use std::collections::HashMap;

use redis::{FromRedisValue, Value, from_redis_value_ref, parse_redis_value};

use crate::{
    keyspace::{self, ShardKeys, is_published},
    limit::{Algorithm, Key, LimitName, Shards},
    namespace::Namespace,
    pipeline,
    reply::{Beat, Migrated, Polled, PublishReply, PutInReply, Refilled, Settled, Throttled},
    scripts,
};

/// Reads `bytes` as the replies of a pipeline. No reply is longer than the bytes, nor read before it is complete.
pub fn pipeline_replies(mut bytes: &[u8]) {
    while let Ok(Some((reply, length))) = pipeline::parse(bytes) {
        assert!((1..=bytes.len()).contains(&length), "a reply of {length} bytes");
        if reply.is_ok() {
            for cut in [0, length / 2, length - 1] {
                assert!(
                    matches!(pipeline::parse(&bytes[..cut]), Ok(None) | Err(_)),
                    "a reply is read before its end"
                );
            }
        }
        bytes = &bytes[length..];
    }
}

/// Reads `bytes` as a reply of each script.
pub fn script_replies(bytes: &[u8]) {
    let Ok(value) = parse_redis_value(bytes) else { return };
    fn read<T: FromRedisValue>(value: &Value) {
        let _ = from_redis_value_ref::<T>(value);
    }
    read::<Settled>(&value);
    read::<PutInReply>(&value);
    read::<Throttled>(&value);
    read::<Refilled>(&value);
    read::<Migrated>(&value);
    read::<PublishReply>(&value);
    read::<Beat>(&value);
    read::<Polled>(&value);
}

/// Reads `text` as a record: lines of a field, a space and its value.
pub fn record(text: &str) {
    let fields: HashMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(field, value)| (field.to_owned(), value.to_owned()))
        .collect();
    let Ok(name) = "fuzz".parse::<LimitName>() else { return };
    if let Ok(limit) = scripts::parse_record(&name, &fields) {
        let pace = limit.terms.supply.pace();
        assert!(limit.terms.capacity.get() > 0 && (pace.n == 0 || pace.p > 0), "{limit:?}");
    }
}

/// Names a limit and a key of a bucket. Its keys in Redis lead back to them, and look like no others.
pub fn names_and_keys(name: &str, key: &str) {
    let Ok(name) = name.parse::<LimitName>() else { return };
    if Key::new(key).is_err() {
        return;
    }
    let (Ok(shards), namespace) = (Shards::new(16), Namespace::default()) else { return };
    let shard = keyspace::shard_of(key, shards);
    let keys = ShardKeys::new(namespace, &name, shard);
    for algorithm in Algorithm::ALL {
        let state = keys.state(algorithm, key);
        assert_eq!(keys.member(&state), key);
        assert_eq!(namespace.state_of(&name, algorithm, &state), Some((shard, key)));
        assert!(!is_published(state.as_bytes()), "{state} counts as a record");
        assert_eq!(crate::hash_slot::HashSlot::of(state.as_bytes()), keys.hash_slot, "{state}");
    }
    assert_eq!(namespace.bucket_of(Algorithm::TokenBucket, &keys.counter(key)), Some((name, shard, key)));
    assert!(is_published(keys.record.as_bytes()));
    assert!(!is_published(namespace.throttle_state(key).as_bytes()));
}
