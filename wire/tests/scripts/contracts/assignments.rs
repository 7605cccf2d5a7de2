//! Whole sets of assignments: comparison, replacement, and those whose replacement was given up. Turns at a source.

use std::{collections::BTreeMap, time::Duration};

use topup_wire::{
    limit::{Assignment, LimitName},
    scripts::{self, Health, SourceNews},
};

use crate::server::Redis;

fn to(word: &str) -> Assignment {
    Assignment { target: word.parse().unwrap(), until: None }
}

fn set(rows: &[(&str, &str)]) -> BTreeMap<String, Assignment> {
    rows.iter().map(|(key, word)| ((*key).to_owned(), to(word))).collect()
}

/// What is assigned by hand, or by the source.
async fn assigned(redis: &mut Redis, name: &LimitName) -> BTreeMap<String, Assignment> {
    let all = scripts::all_assigned(&mut redis.connection, name).await.unwrap();
    all.keys.into_iter().filter_map(|(key, one)| Some((key, one.assignment?))).collect()
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
    let many: BTreeMap<String, Assignment> = (0..3_000).map(|i| (format!("key-{i}"), to("gold"))).collect();
    let found = scripts::compare_assigned(conn, &name, &many).await.unwrap();
    assert_eq!((found.held, found.different, found.has_room), (0, 3_000, true));
    assert_eq!(found.changes.len(), scripts::MOST_LOGGED);
    let held = scripts::all_assigned(conn, &name).await.unwrap();
    scripts::replace_assigned(conn, &name, &held, &many, |_| {}).await.unwrap().unwrap();
    let found = scripts::compare_assigned(conn, &name, &many).await.unwrap();
    assert_eq!((found.held, found.different, found.changes.len()), (3_000, 0, 0));

    let mut wanted = many.clone();
    wanted.remove("key-7");
    wanted.insert("key-8".to_owned(), Assignment { until: Some(5), ..to("gold") });
    wanted.insert("new".to_owned(), to("deny"));
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
    let many: BTreeMap<String, Assignment> = (0..100_000).map(|i| (i.to_string(), to("gold"))).collect();
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
