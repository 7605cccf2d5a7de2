//! Definitions of limits by code, and the log of changes that workers read.

use std::time::Duration;

use futures_util::FutureExt;
use redis::Cmd;
use topup_wire::{
    claims::{Claim, Fingerprint, Owner},
    connection::connect_lazily,
    keyspace::ShardKeys,
    limit::LimitName,
    namespace::Namespace,
    publishing::{self, DefineError, Defined},
    reply::PublishReply,
    scripts::{self, ClaimChange, DefineReply, MOST_CHANGES_LOGGED},
};

use crate::{generators::limit, server::Redis};

const HOUR: Duration = Duration::from_secs(3_600);

fn name(text: &str) -> LimitName {
    text.parse().unwrap()
}

fn owner(text: &str) -> Owner {
    text.parse().unwrap()
}

fn held(reply: DefineReply) -> bool {
    match reply {
        DefineReply::Held(held) => held.is_unannounced,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_change_log_tells_what_changed_or_that_anything_may_have() {
    let mut redis = Redis::start().await;
    let conn = &mut redis.connection;
    let all = scripts::announce(conn).await.unwrap();
    let one = scripts::announce_one(conn, &name("a")).await.unwrap();
    let two = scripts::announce_one(conn, &name("b")).await.unwrap();
    let now = scripts::announce_one(conn, &name("a")).await.unwrap();
    assert!(now > two && two > one && one > all, "{all} {one} {two} {now}");
    let changed = async |conn: &mut _, known, now| scripts::changed_limits(conn, known, now).await.unwrap();
    assert_eq!(changed(conn, all, now).await, None, "the first change after one of all limits");
    assert_eq!(changed(conn, one, now).await, Some(vec![name("b"), name("a")]));
    assert_eq!(changed(conn, two, now).await, Some(vec![name("a")]));
    assert_eq!(changed(conn, now, now).await, None, "nothing is asked that is known");
    // Somebody counts without the log: a daemon of another version, or a hand.
    let unlogged: u64 = Cmd::incr("topup:{topup}:generation", 1).query_async(conn).await.unwrap();
    assert_eq!(changed(conn, all, unlogged).await, None);
    let later = scripts::announce_one(conn, &name("c")).await.unwrap();
    assert_eq!(changed(conn, unlogged, later).await, None, "unknown to the log");
    let last = scripts::announce_one(conn, &name("d")).await.unwrap();
    assert_eq!(changed(conn, later, last).await, Some(vec![name("d")]));
    assert_eq!(changed(conn, later, last + 1).await, None, "a later change is not in it");
    // A change of all limits empties the log.
    let all = scripts::announce(conn).await.unwrap();
    assert_eq!(changed(conn, last, all).await, None);
    let mut second = 0;
    for i in 0..MOST_CHANGES_LOGGED + 5 {
        let now = scripts::announce_one(conn, &name(&format!("limit-{i}"))).await.unwrap();
        second = if i == 1 { now } else { second };
    }
    let now = scripts::generation(conn).await.unwrap().unwrap();
    assert_eq!(changed(conn, second, now).await, None, "too many");
    let recent = changed(conn, now - 3, now).await.unwrap();
    assert!(!recent.is_empty() && recent.len() <= 3, "{recent:?}");
    let entries: usize = Cmd::zcard("topup:{topup}:changes").query_async(conn).await.unwrap();
    assert_eq!(entries, MOST_CHANGES_LOGGED + 2);
}

#[tokio::test]
async fn a_definition_takes_no_limit_from_a_config_or_another_owner() {
    let mut redis = Redis::start().await;
    let conn = &mut redis.connection;
    let (billing, sales) = (owner("billing"), owner("sales"));
    let (api, tenant) = (name("api"), name("tenant"));
    let hold = async |conn: &mut _, name: &LimitName, owner: &Owner, ttl| {
        scripts::hold_defined(conn, name, owner, ttl).await.unwrap()
    };
    // A config claims a limit first, and registers it later.
    let claim = Claim { fingerprint: Fingerprint::of("x"), loaded: 1 };
    let of_config =
        |name: LimitName| ClaimChange { claim: vec![(name, owner("shop"), claim)], ..ClaimChange::default() };
    assert!(scripts::claim(conn, "", &of_config(api)).await.unwrap());
    let before = redis.keyspace().await;
    let conn = &mut redis.connection;
    assert_eq!(hold(conn, &api, &billing, HOUR).await, DefineReply::OfConfig(Some(owner("shop"))));
    assert_eq!(redis.keyspace().await, before);
    let conn = &mut redis.connection;

    assert!(held(hold(conn, &tenant, &billing, HOUR).await), "new");
    assert!(held(hold(conn, &tenant, &billing, HOUR).await), "not announced yet");
    scripts::change_defined(conn, &tenant, &billing, false).await.unwrap();
    assert!(!held(hold(conn, &tenant, &billing, HOUR).await), "renewed");
    let DefineReply::Owned(definition) = hold(conn, &tenant, &sales, HOUR).await else { panic!("taken") };
    assert_eq!(definition.owner, billing);
    for reply in [
        scripts::end_defined(conn, &tenant, &sales).await.unwrap(),
        scripts::change_defined(conn, &tenant, &sales, true).await.unwrap(),
    ] {
        assert!(matches!(reply, DefineReply::Owned(_)), "{reply:?}");
    }
    // Nor does a config take it. Its own claims stay as they are.
    let version = scripts::ownership(conn).await.unwrap().version;
    assert!(!scripts::claim(conn, &version, &of_config(tenant)).await.unwrap());
    assert!(scripts::claim(conn, &version, &of_config(api)).await.unwrap());
    let seen = scripts::ownership(conn).await.unwrap();
    assert_eq!(seen.defined[&tenant].owner, billing);
    assert!(seen.defined[&tenant].until > seen.now && seen.registered.contains(&tenant));

    assert!(!scripts::forget_defined(conn, &tenant).await.unwrap(), "it has not ended");
    scripts::end_defined(conn, &tenant, &billing).await.unwrap();
    assert_eq!(hold(conn, &tenant, &sales, HOUR).await, DefineReply::Ended, "its keys are still there");
    assert!(scripts::forget_defined(conn, &tenant).await.unwrap());
    assert!(held(hold(conn, &tenant, &sales, HOUR).await));
    assert_eq!(scripts::definition(conn, &tenant).await.unwrap().unwrap().owner, sales);
    // An entry of the ends alone takes no limit of a config out of the registry.
    scripts::register(conn, &api, topup_wire::limit::Shards::ONE).await.unwrap();
    Cmd::zadd("topup:{topup}:ends", "api", 1).exec_async(conn).await.unwrap();
    scripts::forget_defined(conn, &api).await.unwrap();
    assert!(scripts::published_limits(conn).await.unwrap().contains_key(&api));
    // Junk in place of the definitions is no definition.
    Cmd::set("topup:{topup}:defined", "x").exec_async(conn).await.unwrap();
    assert!(scripts::ownership(conn).await.unwrap().defined.is_empty());
    scripts::forget(conn, &name("other")).await.unwrap_err();
    assert!(held(hold(conn, &name("other"), &sales, HOUR).await));
}

#[tokio::test]
async fn the_end_of_a_record_is_no_change_of_it_and_no_limit_of_a_config_has_one() {
    let mut redis = Redis::start().await;
    let conn = &mut redis.connection;
    let keys = ShardKeys::new(Namespace::default(), &name("mail"), 0);
    let mail = limit(3, "1/h");
    let publish = async |conn: &mut _, expires| {
        scripts::publish_until(conn, &keys, &mail, None, None, expires).await.unwrap()
    };
    let expires = async |conn: &mut _| {
        scripts::read_limit(conn, &name("mail")).await.unwrap().and_then(|published| published.expires)
    };
    use PublishReply::{Changed, Created, Unchanged};
    assert_eq!(publish(conn, Some(7)).await, Created);
    assert_eq!(publish(conn, Some(9)).await, Unchanged);
    assert_eq!(expires(conn).await, Some(7), "only a caller that still has the definition moves it");
    assert!(scripts::expire_record(conn, &keys, 1 << 52).await.unwrap());
    assert_eq!(expires(conn).await, Some(1 << 52));
    assert!(!scripts::drop_expired(conn, &keys).await.unwrap(), "it has not ended");
    // The later of two ends holds.
    assert!(scripts::expire_record(conn, &keys, 5).await.unwrap());
    assert_eq!((expires(conn).await, publish(conn, Some(9)).await), (Some(1 << 52), Unchanged));
    assert_eq!(expires(conn).await, Some(1 << 52));
    assert!(scripts::end_record(conn, &keys, None).await.unwrap());
    assert!(scripts::drop_expired(conn, &keys).await.unwrap());
    assert!(scripts::drop_expired(conn, &keys).await.unwrap(), "it is gone");
    assert!(!scripts::expire_record(conn, &keys, 5).await.unwrap() && redis.keyspace().await.is_empty());
    let conn = &mut redis.connection;
    assert_eq!(publish(conn, None).await, Created);
    assert!(!scripts::expire_record(conn, &keys, 5).await.unwrap());
    assert!(!scripts::drop_expired(conn, &keys).await.unwrap());
    assert_eq!((publish(conn, Some(9)).await, publish(conn, None).await), (Changed, Changed));
    assert_eq!((expires(conn).await, publish(conn, None).await), (None, Unchanged));
}

#[tokio::test]
async fn a_record_whose_definition_is_lost_ends_soon() {
    let mut redis = Redis::start().await;
    let conn = &mut redis.connection;
    let keys = ShardKeys::new(Namespace::default(), &name("mail"), 0);
    let publish = async |conn: &mut _, expires| {
        scripts::publish_until(conn, &keys, &limit(3, "1/h"), None, None, expires).await.unwrap()
    };
    let left = async |conn: &mut _| {
        let left: i64 = Cmd::pttl(&keys.record).query_async(conn).await.unwrap();
        let ends = scripts::read_limit(conn, &name("mail")).await.unwrap().and_then(|read| read.expires);
        (left, ends)
    };
    publish(conn, Some(1 << 52)).await;
    let (key, ends) = left(conn).await;
    assert!((1..=1_000).contains(&key) && ends.is_some_and(|ends| ends < 1 << 52), "{key} {ends:?}");
    // Nobody else has the definition for sure.
    publish(conn, Some(1 << 52)).await;
    assert_eq!(left(conn).await.1, ends);
    // A definition that has ended by then keeps no record.
    assert!(scripts::expire_record(conn, &keys, 5).await.unwrap());
    let (key, unmoved) = left(conn).await;
    assert!((0..=1_000).contains(&key) && unmoved == ends, "{key} {unmoved:?}");
    assert!(scripts::expire_record(conn, &keys, 1 << 52).await.unwrap());
    assert_eq!(left(conn).await, (-1, Some(1 << 52)));
    // An end that comes late ends no record of another definition.
    assert!(!scripts::end_record(conn, &keys, Some((1 << 52) - 1)).await.unwrap());
    assert_eq!(left(conn).await, (-1, Some(1 << 52)));
    assert!(scripts::end_record(conn, &keys, Some(1 << 52)).await.unwrap());
    assert_eq!(left(conn).await, (-1, Some(1)));
    // A config may take what was left.
    scripts::end_record(conn, &keys, None).await.unwrap();
    scripts::drop_expired(conn, &keys).await.unwrap();
    publish(conn, Some(1 << 52)).await;
    publish(conn, None).await;
    assert_eq!(left(conn).await, (-1, None));
}

/// Another owner takes the limit while a change of it is announced.
#[tokio::test]
async fn a_change_of_a_limit_that_another_owner_has_by_then_is_not_made() {
    let redis = Redis::start().await;
    let connection = connect_lazily(redis.url()).unwrap();
    let (mail, billing, sales) = (name("mail"), owner("billing"), owner("sales"));
    let at_once = |_: Duration| async {}.boxed();
    publishing::define(&connection, &limit(5, "1/s"), &billing, HOUR, at_once).await.unwrap();
    let taken = |_: Duration| {
        let (connection, billing, sales) = (connection.clone(), billing.clone(), sales.clone());
        async move {
            publishing::undefine(&connection, &name("mail"), &billing).await.unwrap();
            publishing::define(&connection, &limit(3, "1/s"), &sales, HOUR, at_once).await.unwrap();
        }
        .boxed()
    };
    let refused = publishing::define(&connection, &limit(9, "1/s"), &billing, HOUR, taken).await;
    assert!(matches!(&refused, Err(DefineError::Owned(now)) if now.owner == sales), "{refused:?}");
    let published = scripts::read_limit(&mut connection.clone(), &mail).await.unwrap().unwrap();
    assert_eq!((published.limit.terms.capacity.get(), published.frozen), (3, false));
}

/// A program may end between any two steps. The next definition of the limit finishes or withdraws the change, and
/// tells workers.
#[tokio::test]
async fn a_change_that_was_cut_short_is_finished_or_withdrawn() {
    let mut redis = Redis::start().await;
    let (connection, direct) = (connect_lazily(redis.url()).unwrap(), redis.connection.clone());
    let (mail, billing) = (name("mail"), owner("billing"));
    let keys = ShardKeys::new(Namespace::default(), &mail, 0);
    // Time passes: the freeze began so much earlier.
    let pass = |time: Duration| {
        let (mut conn, mut earlier) = (direct.clone(), Cmd::new());
        earlier.arg("HINCRBY").arg(&keys.record).arg("frozen").arg(-(time.as_micros() as i64));
        async move { earlier.exec_async(&mut conn).await.unwrap() }.boxed()
    };
    let define = async |capacity| {
        let (defined, _) =
            publishing::define(&connection, &limit(capacity, "1/s"), &billing, HOUR, pass).await.unwrap();
        defined
    };
    let state = async || {
        let published = scripts::read_limit(&mut connection.clone(), &mail).await.unwrap().unwrap();
        let generation = scripts::generation(&mut connection.clone()).await.unwrap();
        (published.limit.terms.capacity.get(), published.frozen, generation)
    };
    // The first steps of a change, up to the announcement of the freeze or up to the change.
    let begin = async |conn: &mut _, capacity, makes: bool| {
        scripts::change_defined(conn, &mail, &billing, true).await.unwrap();
        let limit = limit(capacity, "1/s");
        let publish = async |conn: &mut _, known| {
            scripts::publish_until(conn, &keys, &limit, None, known, Some(1 << 52)).await.unwrap()
        };
        let PublishReply::Announced(frozen) = publish(conn, None).await else { panic!("no freeze") };
        if makes {
            pass(scripts::FREEZE).await;
            assert_eq!(publish(conn, Some(frozen)).await, PublishReply::Changed);
        }
    };
    assert_eq!(define(5).await, Defined::New);
    let (.., first) = state().await;
    assert_eq!((define(5).await, state().await), (Defined::Renewed, (5, false, first)));

    begin(&mut redis.connection, 9, false).await;
    assert!(state().await.1, "frozen");
    assert_eq!(define(5).await, Defined::Renewed);
    let (capacity, frozen, withdrawn) = state().await;
    assert!((capacity, frozen) == (5, false) && withdrawn > first);

    begin(&mut redis.connection, 9, false).await;
    assert_eq!(define(9).await, Defined::Changed);
    let (capacity, frozen, changed) = state().await;
    assert!((capacity, frozen) == (9, false) && changed > withdrawn);

    begin(&mut redis.connection, 12, true).await;
    assert_eq!(state().await, (12, false, changed), "nobody was told");
    assert_eq!(define(12).await, Defined::Renewed);
    assert!(state().await.2 > changed);
    let held: String = redis.ask(&["HGET", "topup:{topup}:defined", "mail"]).await;
    assert_eq!(held, "billing");

    // The end of an undefinition is another's work, too: nobody applies the limit meanwhile.
    scripts::end_record(&mut redis.connection, &keys, None).await.unwrap();
    assert!(!publishing::remove_ended(&connection, &mail).await.unwrap(), "the definition has not ended");
    assert_eq!(define(12).await, Defined::New, "it begins anew");
    assert!(publishing::undefine(&connection, &mail, &billing).await.unwrap());
    let left: Vec<String> = redis.ask(&["KEYS", "topup:{mail:*"]).await;
    assert_eq!(left, [""; 0]);
}
