//! A change of terms waits until all workers know of the freeze.

use std::collections::HashMap;

use topup_wire::{namespace::InNamespace, scripts, scripts::FREEZE};

use super::Fixture;
use crate::{
    clock::Moment,
    config::Config,
    publish::{FrozenShards, desired_limits},
};

const SLOW: &str = "[limit.api]\nkeyed = true\nshards = 2\ncapacity = 10\nrate = \"5/s\"\n";
const FAST: &str = "[limit.api]\nkeyed = true\nshards = 2\ncapacity = 10\nrate = \"50/s\"\n";

fn none() -> FrozenShards {
    FrozenShards::new()
}

async fn record(fixture: &Fixture) -> HashMap<String, String> {
    let fields: HashMap<String, Vec<u8>> = fixture.ask(&["HGETALL", "topup:{api:1}:limit"]).await;
    fields.into_iter().map(|(field, value)| (field, String::from_utf8_lossy(&value).into_owned())).collect()
}

async fn generation(fixture: &Fixture) -> u64 {
    fixture.ask(&["GET", &fixture.connection.namespace().generation()]).await
}

/// Moves the beginning of every freeze into the past by its length.
async fn age(fixture: &Fixture) {
    for shard in 0..2 {
        let (record, micros) = (format!("topup:{{api:{shard}}}:limit"), -(FREEZE.as_micros() as i64));
        fixture.ask::<i64>(&["HINCRBY", &record, "frozen", &micros.to_string()]).await;
    }
}

#[tokio::test]
async fn a_change_of_rate_is_announced_and_made_no_sooner_than_a_freeze_later() {
    let fixture = Fixture::start();
    assert!(fixture.publish(SLOW, &none()).await.frozen.is_empty(), "a new limit needs no freeze");
    let (before, known) = (record(&fixture).await, generation(&fixture).await);
    assert_eq!(before["frozen"], "0");

    let begun = Moment::now();
    let announced = fixture.publish(FAST, &none()).await.frozen;
    assert_eq!(announced.len(), 2);
    let mut frozen = record(&fixture).await;
    assert_ne!(frozen.insert("frozen".to_owned(), "0".to_owned()), Some("0".to_owned()));
    assert_eq!(frozen, before, "nothing else has changed");
    assert!(generation(&fixture).await > known, "workers are told");

    // Publishes again and again; the last of these calls makes the change.
    while !fixture.publish(FAST, &announced).await.frozen.is_empty() {}
    assert!(begun.elapsed() >= FREEZE);
    let after = record(&fixture).await;
    assert_eq!((&*after["rate"], &*after["frozen"]), ("50/s", "0"));
    assert!(after["since"].parse::<u64>().unwrap() > announced.into_values().max().unwrap());
}

#[tokio::test]
async fn a_freeze_that_workers_do_not_know_is_announced_again_however_old() {
    let fixture = Fixture::start();
    fixture.publish(SLOW, &none()).await;
    // As a daemon does that is killed before it tells workers.
    fixture.publish(FAST, &none()).await;
    age(&fixture).await;
    let known = generation(&fixture).await;
    let announced = fixture.publish(FAST, &none()).await.frozen;
    assert_eq!(record(&fixture).await["rate"], "5/s");
    assert!(generation(&fixture).await > known);
    assert!(fixture.publish(FAST, &announced).await.frozen.is_empty());
    assert_eq!(record(&fixture).await["rate"], "50/s");
}

#[tokio::test]
async fn a_change_that_is_taken_back_ends_the_freeze_and_needs_another() {
    let fixture = Fixture::start();
    fixture.publish(SLOW, &none()).await;
    let announced = fixture.publish(FAST, &none()).await.frozen;
    let outcome = fixture.publish(SLOW, &none()).await;
    assert!(outcome.changed && outcome.frozen.is_empty());
    assert_eq!(record(&fixture).await["frozen"], "0");
    let again = fixture.publish(FAST, &announced).await.frozen;
    assert!(again.values().zip(announced.values()).all(|(again, before)| again > before));
}

#[tokio::test]
async fn another_change_during_a_freeze_is_made_at_its_end() {
    let fixture = Fixture::start();
    fixture.publish(SLOW, &none()).await;
    let announced = fixture.publish(FAST, &none()).await.frozen;
    let other = FAST.replace("50/s", "7/s");
    assert_eq!(fixture.publish(&other, &announced).await.frozen.len(), 2);
    age(&fixture).await;
    assert!(fixture.publish(&other, &announced).await.frozen.is_empty());
    assert_eq!(record(&fixture).await["rate"], "7/s");
}

#[tokio::test]
async fn only_capacity_rate_and_algorithm_of_a_token_bucket_need_a_freeze() {
    let fixture = Fixture::start();
    let quota = "[limit.api]\nkeyed = true\nshards = 2\ncapacity = 10\nrefill = { cron = \"0 0 0 1 * *\" }\n";
    let gcra = |rate: &str| format!("{}algorithm = \"gcra\"\n", SLOW.replace("5/s", rate));
    for (from, to) in [
        (SLOW.to_owned(), format!("{SLOW}lease = {{ max = 5, ttl = \"1s\" }}\n")),
        (SLOW.to_owned(), format!("{SLOW}on_change = \"reset\"\n")),
        (quota.to_owned(), quota.replace("10", "20")),
        (gcra("5/s"), gcra("50/s")),
        (gcra("5/s"), SLOW.to_owned()),
        (SLOW.to_owned(), String::new()),
        (String::new(), FAST.to_owned()),
    ] {
        fixture.ask::<()>(&["FLUSHALL"]).await;
        fixture.publish(&from, &none()).await;
        let outcome = fixture.publish(&to, &none()).await;
        assert!(outcome.changed && outcome.frozen.is_empty(), "{from} -> {to}");
    }
    let frozen =
        [SLOW.replace("10", "11"), quota.to_owned(), format!("{FAST}catch_up = false\n"), gcra("5/s")];
    for to in frozen {
        fixture.ask::<()>(&["FLUSHALL"]).await;
        fixture.publish(SLOW, &none()).await;
        assert_eq!(fixture.publish(&to, &none()).await.frozen.len(), 2, "{to}");
    }
}

/// Terms that give more apply from when they are published, those that give less from the boundary.
#[tokio::test]
async fn higher_terms_never_apply_to_the_past() {
    for (before, after, from_boundary) in
        [("5/s", "50/s", false), ("50/s", "5/s", true), ("5/s", "1/s", true), ("1/s", "2/s", false)]
    {
        let fixture = Fixture::start();
        fixture.publish(&SLOW.replace("5/s", before), &none()).await;
        let (seconds, micros): (u64, u64) = fixture.ask(&["TIME"]).await;
        let boundary = seconds * 1_000_000 + micros;
        let changed = Config::parse(&SLOW.replace("5/s", after), "config.toml").unwrap();
        let mut desired = desired_limits(&changed, boundary, |_| true);
        desired[0].since = Some(boundary);
        let frozen = fixture.publish_limits(&desired, &none()).await.frozen;
        age(&fixture).await;
        fixture.publish_limits(&desired, &frozen).await;
        let since: u64 = record(&fixture).await["since"].parse().unwrap();
        assert_eq!(since == boundary, from_boundary, "{before} -> {after}");
        assert!(since >= boundary);
    }
}

#[tokio::test]
async fn the_generation_never_comes_back_to_an_earlier_number() {
    let fixture = Fixture::start();
    let conn = &mut fixture.connection.clone();
    let (seconds, _): (u64, u64) = fixture.ask(&["TIME"]).await;
    let mut last = seconds * 1_000;
    for flushed in [false, false, true, false, true] {
        if flushed {
            fixture.ask::<()>(&["FLUSHALL"]).await;
            // Waits for the next ms: a generation is at least the time in ms.
            while {
                let (s, micros): (u64, u64) = fixture.ask(&["TIME"]).await;
                s * 1_000 + micros / 1_000 <= last
            } {}
        }
        let generation = scripts::announce(conn).await.unwrap();
        assert!(generation > last);
        assert_eq!(scripts::generation(conn).await.unwrap(), Some(generation));
        last = generation;
    }
}
