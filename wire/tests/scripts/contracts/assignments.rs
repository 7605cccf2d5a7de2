//! Whole sets of assignments: comparison, replacement, and those whose replacement was given up. Turns at a source.

use std::{collections::BTreeMap, time::Duration};

use topup_wire::{
    assigned_keys::AssignedKeys,
    keyspace::ShardKeys,
    limit::{Algorithm, Assignment, Limit, LimitName, Plans},
    namespace::Namespace,
    scripts::{self, Health, SourceNews},
};

use crate::{
    generators::limit_of,
    server::{Redis, publish},
};

fn to(word: &str) -> Assignment {
    Assignment { target: word.parse().unwrap(), until: None }
}

fn set(rows: &[(&str, &str)]) -> AssignedKeys {
    rows.iter().map(|(key, word)| (*key, to(word))).collect()
}

/// The assignments by hand, or by the source.
async fn assigned(redis: &mut Redis, name: &LimitName) -> AssignedKeys {
    scripts::all_assigned(&mut redis.connection, name).await.unwrap().keys
}

#[tokio::test]
async fn of_two_replacements_at_once_one_counts_whole_and_nothing_is_left_of_the_other() {
    let mut redis = Redis::start().await;
    let (user, other): (LimitName, LimitName) = ("user".parse().unwrap(), "other".parse().unwrap());
    let conn = &mut redis.connection;
    let [one, two] = [set(&[("a", "gold"), ("b", "gold")]), set(&[("a", "deny"), ("c", "gold")])];
    scripts::assign(conn, &user, &[("old".to_owned(), Some(to("gold")))]).await.unwrap();
    let held = scripts::all_assigned(conn, &user).await.unwrap();
    // The first replacement begins and writes, but does not get to its last step before the second ends.
    let mut other_connection = conn.clone();
    let first = scripts::replace_assigned(&mut other_connection, &user, &held, &one, |_| {});
    let second = scripts::replace_assigned(conn, &user, &held, &two, |_| {});
    let (first, second) = tokio::join!(first, second);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(first.is_some() != second.is_some(), "{first:?} {second:?}");
    let counts = if first.is_some() { &one } else { &two };
    assert_eq!(assigned(&mut redis, &user).await, *counts);

    // Workers read the arrangement before for some time. Then it goes, and nothing but the last one is left.
    let conn = &mut redis.connection;
    let index = scripts::assignment_index(conn).await.unwrap();
    assert_eq!((index.idle.len(), index.idle[0].1.number), (1, 1), "{index:?}");
    scripts::remove_idle(conn, &user, Duration::from_secs(60)).await.unwrap();
    assert_eq!(scripts::assignment_index(conn).await.unwrap().idle.len(), 1);
    scripts::remove_idle(conn, &user, Duration::ZERO).await.unwrap();
    let number = index.shapes[&user].number;
    let left: Vec<String> = redis.ask(&["KEYS", "*assigned:user:*"]).await;
    assert!(left.iter().all(|key| key.contains(&format!("user:{number}:"))), "{left:?}");

    // Changes of other limits, and of the same by the source, are no obstacle.
    let conn = &mut redis.connection;
    let held = scripts::all_assigned(conn, &user).await.unwrap();
    for set in [other, user.source()] {
        scripts::assign(conn, &set, &[("x".to_owned(), Some(to("deny")))]).await.unwrap();
    }
    let done = scripts::replace_assigned(conn, &user, &held, &one, |_| {}).await.unwrap();
    assert!(done.is_some());
    assert_eq!(assigned(&mut redis, &user.source()).await, set(&[("x", "deny")]));
    // One that was given up, as by a daemon that dies, cannot come back.
    let conn = &mut redis.connection;
    for set in [&user, &user.source(), &other] {
        scripts::forget_assigned(conn, set).await.unwrap();
    }
    let left: Vec<String> = redis.ask(&["KEYS", "*assigned:*"]).await;
    assert_eq!(left, Vec::<String>::new());
    let fields: Vec<String> = redis.ask(&["HKEYS", "topup:{topup}:assigned"]).await;
    let general = [" number", " since", " version"].map(str::to_owned);
    assert!(fields.iter().all(|field| general.contains(field)), "{fields:?}");
}

#[tokio::test]
async fn what_differs_is_found_and_nothing_else() {
    let mut redis = Redis::start().await;
    let name = "user".parse::<LimitName>().unwrap().source();
    let conn = &mut redis.connection;
    let many: AssignedKeys = (0..3_000).map(|i| (format!("key-{i}"), to("gold"))).collect();
    let found = scripts::compare_assigned(conn, &name, &many).await.unwrap();
    assert_eq!((found.held, found.different, found.has_room), (0, 3_000, true));
    assert_eq!(found.changes.len(), scripts::MOST_LOGGED);
    let held = scripts::all_assigned(conn, &name).await.unwrap();
    scripts::replace_assigned(conn, &name, &held, &many, |_| {}).await.unwrap().unwrap();
    let found = scripts::compare_assigned(conn, &name, &many).await.unwrap();
    assert_eq!((found.held, found.different, found.changes.len()), (3_000, 0, 0));

    let ended = Assignment { until: Some(5), ..to("gold") };
    let others = many.iter().filter(|(key, _)| !["key-7", "key-8"].contains(key));
    let wanted: AssignedKeys = others.chain([("key-8", ended), ("new", to("deny"))]).collect();
    let mut found = scripts::compare_assigned(conn, &name, &wanted).await.unwrap();
    found.changes.sort_by(|one, other| one.0.cmp(&other.0));
    let changes: Vec<_> = found.changes.iter().map(|(key, one)| (key.as_str(), one.is_some())).collect();
    assert_eq!((found.held, found.different), (3_000, 3));
    assert_eq!(changes, [("key-7", false), ("key-8", true), ("new", true)]);
    scripts::assign(conn, &name, &found.changes).await.unwrap();
    let found = scripts::compare_assigned(conn, &name, &wanted).await.unwrap();
    // The one that has ended is none, though it is as it should be.
    assert_eq!((found.held, found.different), (2_999, 0));
    assert_eq!(assigned(&mut redis, &name).await, wanted);
    // Far more than the arrangement is made for.
    let many: AssignedKeys = (0..100_000).map(|i| (i.to_string(), to("gold"))).collect();
    let found = scripts::compare_assigned(&mut redis.connection, &name, &many).await.unwrap();
    assert!(!found.has_room && found.different == 103_000, "{}", found.different);
}

#[tokio::test]
async fn one_daemon_at_a_time_has_the_turn_at_a_source() {
    let mut redis = Redis::start().await;
    let name: LimitName = "user".parse().unwrap();
    let conn = &mut redis.connection;
    let alive = Duration::from_secs(60);
    scripts::heartbeat(conn, "a", alive, &Health::default()).await.unwrap();
    let news = [SourceNews::Name("x.csv"), SourceNews::Read(7, 3), SourceNews::Applied("hash")];
    assert!(scripts::source_turn(conn, "a", &name, &news).await.unwrap().is_own);
    let turn = scripts::source_turn(conn, "b", &name, &[SourceNews::Problem("x")]).await.unwrap();
    assert!(!turn.is_own && turn.applied.is_empty());
    let told = &scripts::source_statuses(conn).await.unwrap()[&name];
    assert_eq!((told.daemon.as_str(), told.name.as_str(), told.read, told.rows), ("a", "x.csv", Some(7), 3));
    assert_eq!(told.problem, None);

    // A problem has the instant of its first telling, until the source is read again.
    for _ in 0..2 {
        scripts::source_turn(conn, "a", &name, &[SourceNews::Problem("gone")]).await.unwrap();
    }
    let first = scripts::source_statuses(conn).await.unwrap()[&name].problem.clone().unwrap();
    assert!(first.0 == "gone" && first.1 > 0);
    let left = [SourceNews::Problem("still gone"), SourceNews::GivesUp];
    scripts::source_turn(conn, "a", &name, &left).await.unwrap();
    let turn = scripts::source_turn(conn, "b", &name, &[]).await.unwrap();
    assert!(turn.is_own && turn.applied == "hash", "{turn:?}");
    let told = scripts::source_statuses(conn).await.unwrap()[&name].problem.clone().unwrap();
    assert_eq!(told, ("still gone".to_owned(), first.1));
    scripts::source_turn(conn, "b", &name, &[SourceNews::Read(8, 3), SourceNews::Changes]).await.unwrap();
    let turn = scripts::source_turn(conn, "b", &name, &[]).await.unwrap();
    assert!(turn.applied.is_empty());
    assert_eq!(scripts::source_statuses(conn).await.unwrap()[&name].problem, None);
    // b has no heartbeat, so its turn is over as soon as another asks.
    assert!(scripts::source_turn(conn, "a", &name, &[]).await.unwrap().is_own);
    scripts::forget_source(conn, &name).await.unwrap();
    assert_eq!(scripts::source_statuses(conn).await.unwrap(), BTreeMap::new());
}

#[tokio::test]
async fn the_last_changes_are_remembered_while_they_matter() {
    let mut redis = Redis::start().await;
    let user: LimitName = "user".parse().unwrap();
    let keys = ShardKeys::new(Namespace::default(), &user, 0);
    let plain = limit_of(Algorithm::TokenBucket, 20);
    let mut limit = Limit { name: user, plans_fill: 3_600_000_000, ..plain };
    // The text of the key's assignment or of the tables, without instants.
    let field = "acme";
    let words = |text: &str| -> String {
        let parts = text.split('<').map(|part| part.split('@').next().unwrap_or_default());
        parts.collect::<Vec<_>>().join("<")
    };
    let table = |word: &str| Plans::from_text(&format!("gold free\nacme {word}")).unwrap();
    let mut tables = String::new();
    let changes = ["gold", "free", "deny", "gold", "free", "gold", "deny", "free", "gold", "free"];
    for (i, word) in changes.into_iter().enumerate() {
        limit.plans = table(word);
        publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
        let changes = [(field.to_owned(), Some(to(word)))];
        assert!(scripts::try_assign(&mut redis.connection, &user, &changes).await.unwrap().is_ok());
        let shape = scripts::assignment_index(&mut redis.connection).await.unwrap().shapes[&user];
        let hash = format!("topup:{{topup}}:assigned:user:{}:{}", shape.number, shape.hash_of(field));
        let value: String = redis.ask(&["HGET", &hash, field]).await;
        if i == 2 {
            assert_eq!(words(&value), "deny<free<gold<-");
        }
        // Time passes: all instants are 10 s earlier.
        let past: Vec<String> = value
            .split('<')
            .map(|part| match part.split_once('@') {
                Some((word, at)) => format!("{word}@{}", at.parse::<u64>().unwrap() - 10_000_000),
                None => part.to_owned(),
            })
            .collect();
        redis.ask::<()>(&["HSET", &hash, field, &past.join("<")]).await;
        if let Some(at) = redis.ask::<Option<u64>>(&["HGET", &keys.record, "plans_at"]).await {
            redis.ask::<()>(&["HSET", &keys.record, "plans_at", &(at - 10_000_000).to_string()]).await;
        }
        if i == 9 {
            assert_eq!(words(&value), "free<gold<free<deny<gold<free<?<-");
            let read = scripts::read_limit(&mut redis.connection, &user).await.unwrap().unwrap();
            assert_eq!((&read.limit.plans, &read.plans_before), (&table("free"), &table("gold")));
            let past = read.plans_past.iter().map(|past| past.was.clone());
            tables = past
                .map(|was| was.map_or("?".to_owned(), |was| was.of(field, 0).unwrap().1.target.to_string()))
                .collect::<Vec<_>>()
                .join("<");
        }
    }
    assert_eq!(tables, "free<deny<gold<free<?<gold");
    // Later they do not matter any more, and an import carries those that do.
    let conn = &mut redis.connection;
    let held = scripts::all_assigned(conn, &user).await.unwrap();
    scripts::replace_assigned(conn, &user, &held, &set(&[("b", "gold")]), |_| {}).await.unwrap().unwrap();
    let shape = scripts::assignment_index(conn).await.unwrap().shapes[&user];
    let hash = format!("topup:{{topup}}:assigned:user:{}:{}", shape.number, shape.hash_of(field));
    let value: String = redis.ask(&["HGET", &hash, field]).await;
    assert_eq!(words(&value), "-<free<gold<free<deny<gold<?<-");
    let shorter = Limit { plans_fill: 4_000_000, plans: table("deny"), ..limit };
    publish(&mut redis.connection, &keys, &shorter, None).await.unwrap();
    let read = scripts::read_limit(&mut redis.connection, &user).await.unwrap().unwrap();
    assert_eq!(read.plans_past, []);
}
