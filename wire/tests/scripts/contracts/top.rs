//! The most denied keys: bounded, gone after minutes, and never told beyond what is sure.

use topup_wire::{
    keyspace::ShardKeys,
    limit::TopKeys,
    namespace::Namespace,
    scripts::{self, DeniedKeys},
};

use crate::{
    generators::limit,
    server::{Redis, publish},
};

#[tokio::test]
async fn keys_are_summed_bounded_and_forgotten() {
    let mut redis = Redis::start().await;
    let mail = limit(3, "1/h");
    let keys = ShardKeys::new(Namespace::default(), &mail.name, 0);
    let told = TopKeys::new(2).unwrap();
    let denied = |keys: &[(&str, u64)], missing| DeniedKeys {
        keys: keys.iter().map(|(key, takes)| ((*key).to_owned(), *takes)).collect(),
        missing,
    };
    let conn = &mut redis.connection;
    scripts::add_denied(conn, &mail.name, told, &denied(&[("a", 1)], 0)).await.unwrap();
    assert_eq!(redis.keyspace().await.len(), 0, "a limit that is gone gets no key");
    publish(&mut redis.connection, &keys, &mail, None).await.unwrap();

    let conn = &mut redis.connection;
    scripts::add_denied(conn, &mail.name, told, &denied(&[("a", 5), ("b c", 3), ("", 9)], 1)).await.unwrap();
    scripts::add_denied(conn, &mail.name, told, &denied(&[("a", 2), ("<b>", 4)], 0)).await.unwrap();
    let known = scripts::most_denied(conn, &mail.name, told).await.unwrap();
    assert_eq!(known, denied(&[("a", 7), ("<b>", 4)], 1));

    // A limit that tells hashes keeps no key, and shows none that was told before. Any key may have had those takes.
    let hashed = told.hashed(true);
    scripts::add_denied(conn, &mail.name, hashed, &denied(&[("alice", 5)], 0)).await.unwrap();
    let known = scripts::most_denied(conn, &mail.name, hashed).await.unwrap();
    assert_eq!(known.keys, [("sha1:522b276a356bdf39".to_owned(), 5)]);
    // In one slice "a" has most of them. A minute may have ended meanwhile, which makes two slices.
    assert!((1 + 7..=1 + 5 + 4).contains(&known.missing), "{known:?}");
    for slice in redis.ask::<Vec<String>>(&["KEYS", "topup:{mail:0}:top*"]).await {
        assert!(redis.ask::<Option<f64>>(&["ZSCORE", &slice, "alice"]).await.is_none());
        redis.ask::<u64>(&["ZREM", &slice, "sha1:522b276a356bdf39"]).await;
    }

    // More keys than a slice holds. Dropped takes are said to be missing.
    let conn = &mut redis.connection;
    let mut all = 0;
    for i in 0..50_u64 {
        let name = format!("key-{i}");
        scripts::add_denied(conn, &mail.name, told, &denied(&[(&name, 1 + i % 3), ("a", 1)], 0))
            .await
            .unwrap();
        all += 1;
    }
    let known = scripts::most_denied(conn, &mail.name, told).await.unwrap();
    let (key, takes) = &known.keys[0];
    assert_eq!((key.as_str(), *takes), ("a", 7 + all));
    assert!((1..=1 + 50 * 3).contains(&known.missing), "{known:?}");
    let slices: Vec<String> = redis.ask(&["KEYS", "topup:{mail:0}:top*"]).await;
    for slice in &slices {
        assert!(redis.ask::<u64>(&["ZCARD", slice]).await <= 2 * 4 + 1);
        let left = redis.ask::<u64>(&["PTTL", slice]).await;
        assert!((4 * 60_000 - 1..=5 * 60_000).contains(&left), "{left}");
    }
    // A key of a wrong type begins anew, and a change of the limit by a config, too.
    for slice in &slices {
        redis.ask::<()>(&["SET", slice, "junk"]).await;
    }
    let conn = &mut redis.connection;
    scripts::add_denied(conn, &mail.name, told, &denied(&[("d", 1)], 0)).await.unwrap();
    scripts::clear_counts(conn, &mail.name).await.unwrap();
    assert_eq!(scripts::most_denied(conn, &mail.name, told).await.unwrap(), DeniedKeys::default());
}
