//! Tests of the names of keys.

use super::*;
use crate::{
    limit::{Algorithm, LimitName, Shards},
    namespace::Namespace,
};

#[test]
fn a_bucket_is_found_by_its_name_and_key() {
    let name: LimitName = "user".parse().unwrap();
    let shards = Shards::new(8).unwrap();
    // FNV-1a of "a" is af63dc4c8601ec8c.
    assert_eq!(shard_of("a", shards), 0xc % 8);
    let keys = ShardKeys::new(Namespace::default(), &name, 4);
    assert_eq!(keys.counter("a"), "topup:{user:4}:b:a");
    assert_eq!(keys.record, "topup:{user:4}:limit");
    let state = keys.state(Algorithm::LazyTokenBucket, "a");
    assert_eq!((state.as_str(), keys.member(&state)), ("topup:{user:4}:l:a", "a"));
    let found = Namespace::default().state_of(&name, Algorithm::LazyTokenBucket, &state);
    assert_eq!(found, Some((4, "a")));
}

/// Keys and patterns of `of`, with the name and the key that are most like another namespace.
fn all_of(of: Namespace, name: &LimitName) -> (Vec<String>, [String; 2]) {
    let shard = ShardKeys::new(of, name, 0);
    let states = Algorithm::ALL.map(|algorithm| shard.state(algorithm, "shop:{user:0}:b:a"));
    let mut keys = vec![
        of.limits(),
        of.generation(),
        of.daemons(),
        of.schema(),
        of.daemon_details("shop:{shop}:limits"),
        of.counts_of(name),
        of.top_slices(name)[0].clone(),
        of.throttle_state("a"),
    ];
    keys.extend([shard.record, shard.due, shard.previous, shard.counters]);
    keys.extend(states);
    (keys, [of.states_pattern(name), of.counters_pattern()])
}

#[test]
fn every_key_of_a_namespace_begins_with_it_and_so_does_none_of_another() {
    let name: LimitName = "user".parse().unwrap();
    let namespaces = ["shop", "shop2", "sho", "shop.shop", "topup", "s"];
    for one in namespaces.map(|one| one.parse::<Namespace>().unwrap()) {
        let (keys, patterns) = all_of(one, &name);
        let own = format!("{one}:");
        assert!(keys.iter().chain(&patterns).all(|key| key.starts_with(&own)), "{keys:?}");
        for other in namespaces.iter().filter(|other| **other != one.as_str()) {
            assert!(!keys.iter().any(|key| key.starts_with(&format!("{other}:"))), "{keys:?}");
            let other: Namespace = other.parse().unwrap();
            assert!(
                keys.iter().all(|key| other.bucket_of(Algorithm::TokenBucket, key).is_none()),
                "{keys:?}"
            );
        }
    }
    // The keys of earlier versions.
    let (keys, patterns) = all_of(Namespace::default(), &name);
    assert_eq!((keys[0].as_str(), keys[1].as_str()), ("topup:{topup}:limits", "topup:{topup}:generation"));
    assert_eq!(patterns, ["topup:{user:*}:?:*", "topup:{*:*}:[bf]:*"]);
}

#[test]
fn the_module_shares_its_keys_in_the_default_namespace_only() {
    assert_eq!(Namespace::default().cell_key("alice"), "alice");
    assert_eq!("shop".parse::<Namespace>().unwrap().cell_key("alice"), "shop:cell:{alice}");
}

#[test]
fn a_state_is_told_from_whatever_looks_like_one() {
    let topup = Namespace::default();
    let name: LimitName = "user".parse().unwrap();
    for key in ["topup:{user:4}:b:}:l:a", "topup:{users:4}:l:a", "topup:{user:4}:limit", "topup:{user:}:l:a"]
    {
        assert_eq!(topup.state_of(&name, Algorithm::LazyTokenBucket, key), None, "{key}");
    }
    assert_eq!(topup.bucket_of(Algorithm::TokenBucket, "topup:{user:4}:b:}:b:a"), Some((name, 4, "}:b:a")));
    for key in
        ["topup:{user:4}:due", "topup:{user:4}:l:a", "topup:{topup}:limits", "topup:throttle:{a:1}:b:c"]
    {
        assert_eq!(topup.bucket_of(Algorithm::TokenBucket, key), None, "{key}");
    }
    let odd = "topup:{user:4}:l:}:g:a";
    assert_eq!(topup.state_of(&name, Algorithm::LazyTokenBucket, odd), Some((4, "}:g:a")));
}

#[test]
fn a_key_of_daemons_is_told_from_buckets_that_look_like_one() {
    let topup = Namespace::default();
    let record = "topup:{user:4}:limit".to_owned();
    let shop: Namespace = "shop".parse().unwrap();
    for key in [
        record,
        topup.limits(),
        topup.generation(),
        topup.daemons(),
        topup.schema(),
        topup.daemon_details("x"),
        shop.limits(),
    ] {
        assert!(is_published(key.as_bytes()), "{key}");
    }
    assert!(!is_published(topup.workers().as_bytes()), "workers write it");
    for member in ["}:limit", "limit", ":{topup}:limits", "topup:{a:0}:limit", ""] {
        let keys = ShardKeys::new(topup, &"user".parse().unwrap(), 4);
        assert!(!is_published(keys.counter(member).as_bytes()), "{member}");
        assert!(!is_published(topup.throttle_state(member).as_bytes()), "{member}");
    }
    for member in ["topup}:limits", "a}:limit", "{topup}:x"] {
        assert!(!is_published(topup.throttle_state(member).as_bytes()), "{member}");
    }
    assert!(!is_published(b"topup:{user:4}:due") && !is_published(b"\xff:{topup}:x"));
}

#[test]
fn no_two_algorithms_share_a_key() {
    let letters: std::collections::BTreeSet<char> = Algorithm::EVERY.map(letter).into();
    assert_eq!(letters.len(), Algorithm::EVERY.len());
}
